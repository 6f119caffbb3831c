# One image for every part of Fenceline: the command says which.
FROM golang:1.26-alpine AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# Time zones are compiled in: schedules need them and the last stage has none.
RUN CGO_ENABLED=0 go build -trimpath -tags timetzdata -ldflags='-s -w' -o /out/fenceline ./cmd/fenceline \
 && mkdir -p /out/data/files /out/data/reports

# Alpine for its certificates and the wget of the health check, nothing else.
FROM alpine:3
COPY --from=build /out/fenceline /usr/local/bin/fenceline
# A new volume takes over the owner of the folder that it covers.
COPY --from=build --chown=10001:10001 /out/data /var/lib/fenceline
WORKDIR /var/lib/fenceline
ENV FENCELINE_ADDR=0.0.0.0:8080 \
    FILES_DIR=/var/lib/fenceline/files \
    REPORTS_DIR=/var/lib/fenceline/reports \
    LOG_FORMAT=json
# A number, so that an orchestrator can see that it is not root.
USER 10001:10001
EXPOSE 8080
# For `serve`. Workers and schedulers have no port: whoever runs them gives a check
# that fits, as docker-compose.yml does.
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["wget", "-q", "-O", "/dev/null", "http://127.0.0.1:8080/healthz"]
ENTRYPOINT ["/usr/local/bin/fenceline"]
CMD ["serve"]
