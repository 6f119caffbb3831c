package files

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/uuid"
)

// S3 keeps objects in a bucket of Amazon S3 or of a server that speaks its
// language. It rests on conditional writes (If-None-Match), by which a name is
// used once whoever else writes; [S3.CheckConditions] tries them. It is safe for
// concurrent use.
type S3 struct {
	client   *s3.Client
	location Location
	ledger   Ledger
	http     *patient
	buffers  sync.Pool // of *[]byte with the size of a first part

	trying sync.Mutex
	tried  bool // conditions were tried and hold
}

// OpenS3 opens a part of a bucket for the installation with the given id and
// marks it when it is empty. It fails with [ErrOtherInstallation] when it is
// marked for another one or holds objects without a mark. Credentials come from the
// usual places of the AWS configuration. The caller closes it.
func OpenS3(ctx context.Context, l Location, installation uuid.UUID, ledger Ledger) (*S3, error) {
	s, err := connectS3(ctx, l)
	if err != nil {
		return nil, err
	}
	s.ledger = ledger
	if err := s.CheckMarker(ctx, installation); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// maxTries bounds how often a request is sent.
const maxTries = 4

// connectS3 prepares a client; nothing is sent yet.
func connectS3(ctx context.Context, l Location) (*S3, error) {
	if l.Timeout == 0 {
		l.Timeout = usualTimeout
	}
	options := []func(*config.LoadOptions) error{config.WithHTTPClient(tuned(l.Timeout)), config.WithRetryer(newRetryer)}
	if l.Region != "" {
		options = append(options, config.WithRegion(l.Region))
	}
	conf, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("read the AWS configuration: %w", err)
	}
	if conf.Region == "" && (l.Endpoint != "" || conf.BaseEndpoint != nil) {
		conf.Region = "us-east-1" // what servers without regions expect in a signature
	}
	if conf.Region == "" {
		return nil, fmt.Errorf("open %s: no region is known; add ?region=… to FILES_URL or set AWS_REGION", l)
	}
	p := &patient{limit: l.Timeout}
	if b, ok := conf.HTTPClient.(*awshttp.BuildableClient); ok {
		p.transport = b.GetTransport()
	} else {
		return nil, fmt.Errorf("read the AWS configuration: its client is a %T", conf.HTTPClient) // a change of the SDK
	}
	client := s3.NewFromConfig(conf, func(o *s3.Options) {
		o.UsePathStyle, o.HTTPClient = l.PathStyle, p
		if l.Endpoint != "" {
			o.BaseEndpoint = &l.Endpoint
		}
		// Checksums are given where they are wanted; what the SDK adds by itself many servers do not know.
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	})
	s := &S3{client: client, location: l, http: p}
	s.buffers.New = func() any { b := make([]byte, 0, firstPart); return &b }
	return s, nil
}

// newRetryer waits at most some seconds between tries, and never forgoes one
// because others have failed: an attempt that ends is dearer.
func newRetryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.MaxBackoff, o.RateLimiter = maxTries, 5*time.Second, ratelimit.None
		o.Retryables = append(o.Retryables, retry.RetryableErrorCode{Codes: map[string]struct{}{"ConditionalRequestConflict": {}, "OperationAborted": {}}})
	})
}

// Close closes connections that are not in use.
func (s *S3) Close() error {
	s.http.transport.CloseIdleConnections()
	return nil
}

// String says where the objects lie, for people.
func (s *S3) String() string { return s.location.String() }

// bucket and key name an object below the root.
func (s *S3) bucket() *string { return &s.location.Bucket }

func (s *S3) key(name string) *string { return new(path.Join(s.location.Prefix, name)) }

// below is the beginning of all keys in a folder below the root; "" is the root.
func (s *S3) below(folder string) string {
	if prefix := path.Join(s.location.Prefix, folder); prefix != "" {
		return prefix + "/"
	}
	return ""
}

// stranger is the name of something below the root that is neither the mark nor
// left of a probe; empty when there is nothing.
func (s *S3) stranger(ctx context.Context) (string, error) {
	found, enough := "", errors.New("enough")
	err := s.List(ctx, func(o Object) error {
		found = o.Path
		return enough
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return found, err
}

// Empty is [Store.Empty].
func (s *S3) Empty(ctx context.Context) (bool, error) {
	found, err := s.stranger(ctx)
	return found == "", err
}

// RemoveFolder is [Store.RemoveFolder]: a bucket has no folders.
func (s *S3) RemoveFolder(context.Context, uuid.UUID) error { return nil }
