package files

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
)

// storeError is what a bucket's server answered, or that it did not, in plain words.
type storeError struct {
	text  string
	kind  error // one of this package's, or nil
	cause error
}

func (e *storeError) Error() string { return e.text }

func (e *storeError) Unwrap() []error {
	if e.kind == nil {
		return []error{e.cause}
	}
	return []error{e.kind, e.cause}
}

// explain says of an error of the client what it means for whoever runs this. It
// is [ErrNotFound] for a key that is not there (but not for a bucket) and
// [ErrExists] for a condition that does not hold.
func (s *S3) explain(err error) error {
	if err == nil {
		return nil
	}
	code, text := "", ""
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		code, text = api.ErrorCode(), api.ErrorMessage()
	}
	status, id := 0, ""
	if resp, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		status, id = resp.HTTPStatusCode(), resp.ServiceRequestID()
	}
	out := &storeError{cause: err}
	switch {
	case errors.Is(err, context.Canceled) && !isStalled(err):
		return err
	case code == "NoSuchBucket":
		out.text = fmt.Sprintf("the bucket of %s does not exist", s)
	case code == "NoSuchKey":
		out.kind, out.text = ErrNotFound, ErrNotFound.Error()
	case status == http.StatusNotFound && (code == "NotFound" || code == ""): // of a HEAD, which has no body to say what is missing
		out.kind, out.text = ErrNotFound, ErrNotFound.Error()
	case status == http.StatusPreconditionFailed:
		out.kind, out.text = ErrExists, ErrExists.Error()
	case status == http.StatusForbidden || code == "AccessDenied":
		out.text = fmt.Sprintf("%s refuses these credentials (%s)", s, said(code, text, status, id))
	case status != 0:
		out.text = fmt.Sprintf("%s answered %s", s, said(code, text, status, id))
	case isStalled(err):
		stalled, _ := errors.AsType[*stalledError](err)
		out.text = fmt.Sprintf("%s made no progress for %s", s, stalled.limit)
	case strings.Contains(err.Error(), "retrieve credentials"):
		out.text = fmt.Sprintf("no credentials for %s were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or another of the ways of the AWS configuration", s)
	default:
		out.text = fmt.Sprintf("%s cannot be reached: %s", s, reason(err))
	}
	return out
}

func isStalled(err error) bool {
	_, ok := errors.AsType[*stalledError](err)
	return ok
}

// said is an answer in one piece, such as "SlowDown: reduce your request rate, status 503, request 4F2".
func said(code, text string, status int, id string) string {
	parts := []string{strings.Trim(code+": "+text, ": ")}
	if parts[0] == "" {
		parts[0] = "nothing more"
	}
	parts = append(parts, fmt.Sprintf("status %d", status))
	if id != "" {
		parts = append(parts, "request "+id)
	}
	return strings.Join(parts, ", ")
}

// reason is the innermost thing that went wrong on the way, without the client's wrapping.
func reason(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Error()
	}
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}
