package invoice

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"github.com/fenceline/fenceline/jobs/invoice/pdf"
)

// picture reads a PNG or JPEG file in base64. The file is looked at now, so that
// a document with a damaged logo is refused before there is a job for it.
func (r *reader) picture(path string, tok json.Token) ([]byte, *pdf.Image) {
	text, ok := tok.(string)
	if !ok {
		r.refuse(path, tok, "a PNG or JPEG file in base64")
		return nil, nil
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		hint := ""
		switch {
		case strings.HasPrefix(text, "data:"):
			hint = "; leave out what comes before the comma"
		case strings.Contains(text, "://"):
			hint = "; addresses are not fetched"
		}
		r.add(path, text, "is not a PNG or JPEG file in base64%s", hint)
		return nil, nil
	}
	image, err := pdf.DecodeImage(data)
	if err != nil {
		r.add(path, "", "%s", reason(err, pdf.ErrImage))
		return nil, nil
	}
	return data, image
}

// reason is an error's text without the kind before it.
func reason(err, kind error) string {
	if errors.Is(err, kind) {
		return strings.TrimPrefix(err.Error(), kind.Error()+": ")
	}
	return err.Error()
}
