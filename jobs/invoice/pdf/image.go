package pdf

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"image/png"
	"io"
)

// Bounds of a picture. A small file can hold a picture that fills the memory:
// what it will become is looked at before it is unpacked.
const (
	MaxImageBytes  = 1 << 20   // of the file
	MaxImagePixels = 4_000_000 // width times height
	maxImageSide   = 10_000
)

// Image is a picture that is ready to be put into files. It is read only and
// safe for concurrent use.
type Image struct {
	// Width and Height are in pixels.
	Width, Height int

	space  string // name of the colour space
	filter string
	data   []byte
	alpha  []byte // compressed, one byte a pixel; nil when nothing shows through
}

// ErrImage is what every refusal of a picture is about.
var ErrImage = errors.New("the picture cannot be used")

// DecodeImage reads a PNG or JPEG file. The error says what is wrong with it.
func DecodeImage(data []byte) (*Image, error) {
	if len(data) > MaxImageBytes {
		return nil, fmt.Errorf("%w: it has %d bytes; at most %d are taken", ErrImage, len(data), MaxImageBytes)
	}
	switch {
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		return decodePNG(data)
	case bytes.HasPrefix(data, []byte("\xff\xd8\xff")):
		return decodeJPEG(data)
	}
	return nil, fmt.Errorf("%w: it is neither a PNG nor a JPEG file", ErrImage)
}

// unreadable says what to do about a file that its decoder refuses.
func unreadable(err error) error {
	return fmt.Errorf("%w: it is damaged or of a rare kind (%w); save it again as PNG or JPEG", ErrImage, err)
}

func checkSize(c image.Config, err error) error {
	switch {
	case err != nil:
		return unreadable(err)
	case c.Width < 1 || c.Height < 1:
		return fmt.Errorf("%w: it is empty", ErrImage)
	case c.Width > maxImageSide || c.Height > maxImageSide || c.Width*c.Height > MaxImagePixels:
		return fmt.Errorf("%w: it has %d × %d pixels; at most %d in all and %d on a side are taken; make it smaller",
			ErrImage, c.Width, c.Height, MaxImagePixels, maxImageSide)
	}
	return nil
}

func decodePNG(data []byte) (*Image, error) {
	if err := checkSize(png.DecodeConfig(bytes.NewReader(data))); err != nil {
		return nil, err
	}
	picture, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, unreadable(err)
	}
	return fromPixels(picture), nil
}

// decodeJPEG keeps the file as it is where a PDF can hold it; it is unpacked
// all the same, so that no damaged picture gets into a document.
func decodeJPEG(data []byte) (*Image, error) {
	config, err := jpeg.DecodeConfig(bytes.NewReader(data))
	if err := checkSize(config, err); err != nil {
		return nil, err
	}
	picture, err := jpeg.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, unreadable(err)
	}
	out := &Image{Width: config.Width, Height: config.Height, space: "DeviceRGB", filter: "DCTDecode", data: bytes.Clone(data)}
	switch config.ColorModel {
	case color.GrayModel:
		out.space = "DeviceGray"
	case color.YCbCrModel:
	default: // four inks, of which there are several readings
		return fromPixels(picture), nil
	}
	return out, nil
}

// fromPixels takes the colours and what shows through apart.
func fromPixels(picture image.Image) *Image {
	size := picture.Bounds()
	flat := image.NewNRGBA(image.Rect(0, 0, size.Dx(), size.Dy()))
	draw.Draw(flat, flat.Bounds(), picture, size.Min, draw.Src)
	n := size.Dx() * size.Dy()
	colours, alpha, solid := make([]byte, 0, 3*n), make([]byte, 0, n), true
	for i := 0; i < 4*n; i += 4 {
		colours = append(colours, flat.Pix[i:i+3]...)
		alpha = append(alpha, flat.Pix[i+3])
		solid = solid && flat.Pix[i+3] == 0xFF
	}
	out := &Image{Width: size.Dx(), Height: size.Dy(), space: "DeviceRGB", filter: "FlateDecode", data: deflate(colours)}
	if !solid {
		out.alpha = deflate(alpha)
	}
	return out
}

// File is the picture as a file that other programs read, with its media type.
func (i *Image) File() (mediaType string, data []byte) {
	if i.filter == "DCTDecode" {
		return "image/jpeg", i.data
	}
	picture := image.NewNRGBA(image.Rect(0, 0, i.Width, i.Height))
	colours, alpha := inflate(i.data), inflate(i.alpha)
	for n := range min(len(colours)/3, i.Width*i.Height) {
		copy(picture.Pix[4*n:], colours[3*n:3*n+3])
		picture.Pix[4*n+3] = 0xFF
		if n < len(alpha) {
			picture.Pix[4*n+3] = alpha[n]
		}
	}
	var out bytes.Buffer
	_ = png.Encode(&out, picture) // a buffer takes everything
	return "image/png", out.Bytes()
}

// inflate unpacks what deflate has packed; nothing gives nothing.
func inflate(data []byte) []byte {
	r, err := zlib.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil
	}
	out, _ := io.ReadAll(r) // our own bytes
	return out
}

func (i *Image) embed(f *file) ref {
	r := f.reserve()
	mask := ""
	if i.alpha != nil {
		m := f.reserve()
		f.plainStream(m, i.dictionary("DeviceGray", "FlateDecode"), i.alpha)
		mask = "/SMask " + m.String()
	}
	f.plainStream(r, i.dictionary(i.space, i.filter)+mask, i.data)
	return r
}

func (i *Image) dictionary(space, filter string) string {
	return fmt.Sprintf("/Type/XObject/Subtype/Image/Width %d/Height %d/ColorSpace/%s/BitsPerComponent 8/Filter/%s",
		i.Width, i.Height, space, filter)
}
