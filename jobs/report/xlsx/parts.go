package xlsx

import (
	"encoding/xml"
	"fmt"
	"strings"
)

const (
	xmlHead = `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>` + "\n"

	mainNS      = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
	relationNS  = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
	packageNS   = "http://schemas.openxmlformats.org/package/2006/"
	mediaType   = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
	mediaPrefix = "application/vnd.openxmlformats-officedocument.spreadsheetml."
)

const packageRelations = xmlHead + `<Relationships xmlns="` + packageNS + `relationships">` +
	`<Relationship Id="rId1" Type="` + relationNS + `/officeDocument" Target="xl/workbook.xml"/>` +
	`<Relationship Id="rId2" Type="` + packageNS + `relationships/metadata/core-properties" Target="docProps/core.xml"/>` +
	`<Relationship Id="rId3" Type="` + relationNS + `/extended-properties" Target="docProps/app.xml"/>` +
	`</Relationships>`

// appProperties say who made the file. There are no times: the same rows give the
// same bytes.
const appProperties = xmlHead + `<Properties xmlns="http://schemas.openxmlformats.org/officeDocument/2006/extended-properties">` +
	`<Application>Fenceline</Application></Properties>`

func coreProperties(title string) string {
	return xmlHead + `<cp:coreProperties xmlns:cp="` + packageNS + `metadata/core-properties" xmlns:dc="http://purl.org/dc/elements/1.1/">` +
		`<dc:title>` + escaped(title) + `</dc:title><dc:creator>Fenceline</dc:creator></cp:coreProperties>`
}

// workbook names the sheets, and the area of each filter as Excel itself does.
func (b *book) workbook(lastColumn string) string {
	var s strings.Builder
	s.WriteString(xmlHead + `<workbook xmlns="` + mainNS + `" xmlns:r="` + relationNS + `"><bookViews><workbookView/></bookViews><sheets>`)
	for i := range b.rows {
		fmt.Fprintf(&s, `<sheet name="%s" sheetId="%d" r:id="rId%[2]d"/>`, escaped(sheetName(b.title, i+1)), i+1)
	}
	s.WriteString(`</sheets><definedNames>`)
	for i, rows := range b.rows {
		quoted := strings.ReplaceAll(sheetName(b.title, i+1), "'", "''")
		fmt.Fprintf(&s, `<definedName name="_xlnm._FilterDatabase" localSheetId="%d" hidden="1">%s!$A$1:$%s$%d</definedName>`,
			i, escaped("'"+quoted+"'"), lastColumn, rows)
	}
	s.WriteString(`</definedNames></workbook>`)
	return s.String()
}

func (b *book) relations() string {
	var s strings.Builder
	s.WriteString(xmlHead + `<Relationships xmlns="` + packageNS + `relationships">`)
	for i := range b.rows {
		fmt.Fprintf(&s, `<Relationship Id="rId%d" Type="%s/worksheet" Target="worksheets/sheet%[1]d.xml"/>`, i+1, relationNS)
	}
	fmt.Fprintf(&s, `<Relationship Id="rId%d" Type="%s/styles" Target="styles.xml"/></Relationships>`, len(b.rows)+1, relationNS)
	return s.String()
}

func (b *book) contentTypes() string {
	var s strings.Builder
	s.WriteString(xmlHead + `<Types xmlns="` + packageNS + `content-types">` +
		`<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>` +
		`<Default Extension="xml" ContentType="application/xml"/>`)
	override := func(part, contentType string) {
		fmt.Fprintf(&s, `<Override PartName="%s" ContentType="%s+xml"/>`, part, contentType)
	}
	override("/xl/workbook.xml", mediaPrefix+"sheet.main")
	override("/xl/styles.xml", mediaPrefix+"styles")
	override("/docProps/core.xml", "application/vnd.openxmlformats-package.core-properties")
	override("/docProps/app.xml", "application/vnd.openxmlformats-officedocument.extended-properties")
	for i := range b.rows {
		override(fmt.Sprintf("/xl/worksheets/sheet%d.xml", i+1), mediaPrefix+"worksheet")
	}
	s.WriteString(`</Types>`)
	return s.String()
}

// escaped is text for XML; what XML cannot hold becomes U+FFFD.
func escaped(text string) string {
	var s strings.Builder
	_ = xml.EscapeText(&s, []byte(text)) // a strings.Builder takes everything
	return s.String()
}
