# Everything a newcomer runs. POSIX sh and make; what else is needed is installed
# where that is possible without a question, and named where it is not.
.POSIX:
.PHONY: help up demo build test lint bench bench-tools clean postgres tools chaos model leases kubernetes screenshots lab

# Further flags of `fenceline up`, as in: make up ARGS="--addr 127.0.0.1:9000"
ARGS =
# How many packages are tested at once. Each starts servers of its own and runs
# its tests side by side, so two keep two cores busy.
P = 2

help:
	@echo 'make up      start Fenceline with private servers (ARGS="--addr ..." for more flags)'
	@echo 'make demo    the same, with a small shop to export from'
	@echo 'make build   compile bin/fenceline'
	@echo 'make test    install what the tests need, vet, and run all tests (P=8 on a large machine)'
	@echo 'make lint    run golangci-lint'
	@echo 'make bench   run the benchmarks'
	@echo 'make chaos   hurt everything for FOR=10m, with SEED= of an earlier run to replay it'
	@echo 'make model   check the protocol model with three attempts (minutes, a gigabyte)'
	@echo 'make lab     play the lab of leases, and write its table into the README'
	@echo 'make leases  play the drill with each service that only builds with its tag know'
	@echo 'make kubernetes  play the contract of leases against a real KUBE_APISERVER=PATH'
	@echo 'make screenshots  make the pictures of the README again, in a real browser'
	@echo 'make clean   remove what was compiled; data folders stay'

up: build postgres
	@exec ./bin/fenceline up $(ARGS)

demo: build postgres
	@exec ./bin/fenceline up --demo $(ARGS)

build:
	@command -v go >/dev/null || { echo 'Go is missing: install Go 1.26 or newer.' >&2; exit 1; }
	@[ -x bin/fenceline ] || echo 'Compiling Fenceline; the first time takes a minute or two ...'
	@go build -trimpath -o bin/fenceline ./cmd/fenceline

test: tools
	@list=$$("$$(go env GOROOT)/bin/gofmt" -l cmd jobs migrations storage web); \
	[ -z "$$list" ] || { echo 'These files are not formatted; run gofmt -w on them:' >&2; echo "$$list" >&2; exit 1; }
	go vet ./...
	go vet -tags $(LEASE_TAGS) ./cmd/fenceline
	@mkdir -p bin; log=bin/test.log; \
	rm -f $$log.ok; \
	echo 'go test -race -vet=off -count=1 -timeout 30m -p $(P) ./...'; \
	{ go test -race -vet=off -count=1 -timeout 30m -p $(P) ./... && echo passed >$$log.ok; } 2>&1 | tee $$log; \
	[ -e $$log.ok ] && { rm -f $$log.ok; exit 0; }; \
	echo; echo 'What failed (all of it is in bin/test.log):'; \
	grep -E '^(FAIL|panic:|WARNING: DATA RACE)|^ *--- FAIL' $$log; \
	grep -A 25 -E '^ *--- FAIL|^panic:|DATA RACE' $$log | grep -v 'level=' | cut -c 1-300 | tail -n 60; \
	echo; .ci/again $$log

lint:
	@command -v golangci-lint >/dev/null || { echo 'golangci-lint is missing; get it with: go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@latest' >&2; exit 1; }
	golangci-lint run

bench: bench-tools
	go test -run '^$$' -bench . -benchmem -p 1 -timeout 120m ./...

# The peers that benchmarks run beside us, besides what the tests need.
bench-tools: tools
	@mkdir -p bin; cd jobs/testdata/river && go build -o ../../../bin/riverpeer .
	@packages=; have() { command -v "$$1" >/dev/null; }; \
	[ -e /usr/include/xlsxwriter.h ] || packages="$$packages libxlsxwriter-dev"; \
	have wkhtmltopdf || packages="$$packages wkhtmltopdf"; \
	have weasyprint || packages="$$packages weasyprint"; \
	[ -d /usr/share/fonts/truetype/noto ] || packages="$$packages fonts-noto-core"; \
	if [ -z "$$packages" ]; then exit 0; elif $(CAN_APT); then $(APT_INSTALL); else \
	echo "The benchmarks need what these Debian packages hold:$$packages" >&2; exit 1; fi

# How long, and with which seed (0 takes a new one).
FOR = 10m
SEED = 0
chaos:
	go test -race -count=1 -timeout 24h -run '^TestChaos$$' -v ./cmd/fenceline -chaos $(FOR) -chaos.seed $(SEED)

# Two attempts are part of `make test`.
model:
	go test -run '^TestModel$$' -count=1 -timeout 30m -v ./storage/protocol -args -model.attempts=3

# With servers of the lab's own, or with those that are given. The row of Kubernetes is of a real API server:
# make lab LAB='kubernetes=kubernetes://NAMESPACE?kubeconfig=PATH'
LAB =
lab: tools
	go test -run '^TestLab$$' -count=1 ./cmd/fenceline -args -lab '$(LAB)' -update

# The build tags of services that hand out leases. That the program builds with
# them is part of `make test`, and so are their packages; this plays the program.
LEASE_TAGS = etcd,zookeeper,kubernetes
leases: tools
	go test -tags $(LEASE_TAGS) -run '^TestDrillWithTaggedLeases' -count=1 -v ./cmd/fenceline

# The contract of leases against a real API server with an etcd of its own, which the test starts. `make test` plays it against one
# that only knows leases, for the real one is in no package of Debian and takes long to compile.
KUBE_APISERVER = kube-apiserver
ETCD = etcd
kubernetes:
	@for program in "$(KUBE_APISERVER)" "$(ETCD)"; do command -v "$$program" >/dev/null || { \
	printf '%s\n' "$$program is missing. etcd is in Debian's package etcd-server. For a kube-apiserver" \
	'take one of your cluster, or that of setup-envtest (it brings its etcd), or compile one: .ci/kube-apiserver PATH' \
	'Then: make kubernetes KUBE_APISERVER=PATH ETCD=PATH' >&2; exit 1; }; done
	go test -run '^TestRealLeases$$' -count=1 -timeout 20m -v ./jobs/lease/kubernetes -args \
		-kube-apiserver "$$(command -v "$(KUBE_APISERVER)")" -etcd "$$(command -v "$(ETCD)")"

# Looks at the dashboard of a small shop; what is shown was really made.
screenshots: tools
	go test -run '^TestScreenshots$$' -count=1 ./web -args -screenshots screenshots

clean:
	rm -rf bin

# The places where storage/localpg looks besides PATH.
POSTGRES_PLACES = /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/local/pgsql/bin \
	/opt/homebrew/opt/postgresql@*/bin /usr/local/opt/postgresql@*/bin \
	/Applications/Postgres.app/Contents/Versions/*/bin

# Shell: true when a PostgreSQL server could be started.
HAVE_POSTGRES = { \
	command -v initdb && command -v postgres || \
	for d in $(POSTGRES_PLACES); do [ -x "$$d/initdb" ] && [ -x "$$d/postgres" ] && break; done; \
	} >/dev/null

# Shell: true when Debian's packages can be installed without a password.
CAN_APT = { command -v apt-get >/dev/null && { [ "$$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }; }

# Shell: install $packages from Debian's. Its PostgreSQL makes a cluster for the
# whole machine and starts it at every boot, and its etcd starts too: nobody asked
# for that here.
APT_INSTALL = { \
	root=; [ "$$(id -u)" = 0 ] || root='sudo -n'; \
	conf=/etc/postgresql-common/createcluster.d; policy=/usr/sbin/policy-rc.d; status=0; \
	echo "Installing Debian packages:$$packages"; \
	$$root apt-get update -q || echo 'Going on with the package lists of the last time.' >&2; \
	case $$packages in *postgresql*) \
		$$root mkdir -p $$conf; \
		echo 'create_main_cluster = false' | $$root tee $$conf/fenceline.conf >/dev/null;; \
	esac; \
	if [ -e $$policy ]; then policy=; else \
		trap "$$root rm -f $$policy" EXIT; trap 'exit 130' INT TERM; \
		printf '\043!/bin/sh\nexit 101\n' | $$root tee $$policy >/dev/null && $$root chmod +x $$policy; \
	fi; \
	$$root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 \
		install -y --no-install-recommends $$packages </dev/null || status=$$?; \
	$$root rm -f $$conf/fenceline.conf $$policy; \
	case $$packages in *etcd-server*) $$root update-rc.d etcd disable >/dev/null 2>&1 || true;; esac; \
	[ $$status = 0 ] || { echo "Could not install:$$packages" >&2; exit $$status; }; \
	}

# For `up`. Where nothing can be installed, `up` itself says what to do.
postgres:
	@if [ -n "$$DATABASE_URL" ] || $(HAVE_POSTGRES); then exit 0; fi; \
	if $(CAN_APT); then packages=' postgresql'; $(APT_INSTALL); \
	elif command -v brew >/dev/null; then brew install postgresql@17; \
	fi

# Reads our Parquet in tests; a version of its package for Node.
DUCKDB = 1.5.6-r.1

# Read our e-invoices in tests.
EINVOICE = @e-invoice-eu/core@2.3.4 node-zugferd@0.1.0 factur-x-kit@0.3.1

# Looks at our pages in tests, as people with a screen reader or a keyboard would.
AXE = 4.14.1

# For `test`: the servers, and the strangers that look at what we made.
tools:
	@command -v go >/dev/null || { echo 'Go is missing: install Go 1.26 or newer.' >&2; exit 1; }
	@packages=; \
	have() { command -v "$$1" >/dev/null; }; \
	$(HAVE_POSTGRES) || packages="$$packages postgresql"; \
	have redis-server || packages="$$packages redis-server"; \
	have etcd || packages="$$packages etcd-server"; \
	have java || packages="$$packages default-jre-headless"; \
	[ -e /usr/share/java/zookeeper.jar ] || packages="$$packages libzookeeper-java"; \
	have chromium || have chromium-browser || have google-chrome || packages="$$packages chromium"; \
	have pdftotext || packages="$$packages poppler-utils"; \
	have qpdf || packages="$$packages qpdf"; \
	have curl || packages="$$packages curl"; \
	php -m 2>/dev/null | grep -q '^curl$$' || packages="$$packages php-cli php-curl"; \
	have spin || packages="$$packages spin"; \
	have soffice || packages="$$packages libreoffice-calc-nogui"; \
	/usr/bin/python3 -c 'import openpyxl' 2>/dev/null || python3 -c 'import openpyxl' 2>/dev/null || packages="$$packages python3-openpyxl"; \
	have xmllint || packages="$$packages libxml2-utils"; \
	have node && have npm || packages="$$packages nodejs npm"; \
	have ip || [ -x /usr/sbin/ip ] || [ -x /sbin/ip ] || [ "$$(uname)" != Linux ] || packages="$$packages iproute2"; \
	have pgbouncer || [ -x /usr/sbin/pgbouncer ] || packages="$$packages pgbouncer"; \
	have "$$(go env CC)" || packages="$$packages gcc libc6-dev"; \
	if [ -z "$$packages" ]; then :; elif $(CAN_APT); then $(APT_INSTALL); else \
	echo "The tests need what these Debian packages hold; install it and try again:$$packages" >&2; \
	echo '(macOS: brew install postgresql@17 redis etcd poppler qpdf spin pgbouncer node php libreoffice, pip install openpyxl, and Chromium)' >&2; \
	exit 1; fi; \
	[ -e bin/duckdb/node_modules/@duckdb/node-api/package.json ] || \
	npm install --silent --no-audit --no-fund --prefix bin/duckdb @duckdb/node-api@$(DUCKDB); \
	[ -e bin/einvoice/node_modules/factur-x-kit/package.json ] || \
	npm install --silent --no-audit --no-fund --prefix bin/einvoice $(EINVOICE); \
	[ -e bin/axe/node_modules/axe-core/axe.min.js ] || \
	npm install --silent --no-audit --no-fund --prefix bin/axe axe-core@$(AXE)
	@[ -x bin/versitygw ] || { mkdir -p bin; echo 'Compiling an S3 server; the first time takes a minute or two ...'; \
	cd storage/files/testdata/versitygw && go build -o ../../../../bin/versitygw github.com/versity/versitygw/cmd/versitygw; }
	@[ -x bin/oidcprovider ] || { mkdir -p bin; echo 'Compiling an OpenID provider; the first time takes a minute ...'; \
	cd web/oidc/testdata/provider && go build -o ../../../../bin/oidcprovider .; }
