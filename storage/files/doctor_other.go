//go:build unix && !linux && !darwin && !freebsd

package files

import "errors"

func volume(string) (VolumeFacts, error) { return VolumeFacts{}, errors.ErrUnsupported }
