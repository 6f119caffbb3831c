// Looks at e-invoices with libraries that no one here wrote. For each name given
// it reads NAME.cii.xml and NAME.ubl.xml and prints what they find wrong, one
// line of JSON for each complaint; nothing when all is well.
//
//   factur-x-kit        the business rules of EN 16931 on the CII
//   @e-invoice-eu/core  names, order, cardinality and code lists of the UBL, and
//                       the UBL and CII that it writes itself from the same data
'use strict';
const fs = require('fs');
const { createRequire } = require('module');
const need = createRequire(process.argv[2] + '/');
const { FacturX } = need('factur-x-kit');
const { FormatFactoryService, invoiceSchema } = need('@e-invoice-eu/core');
const { XMLParser } = createRequire(need.resolve('factur-x-kit/package.json'))('fast-xml-parser');
const { default: Ajv } = createRequire(need.resolve('@e-invoice-eu/core'))('ajv/dist/2019');

// EN 16931 does not limit the decimals of a price (BT-146); this schema does.
invoiceSchema.properties['ubl:Invoice'].properties['cac:InvoiceLine'].items.properties['cac:Price']
  .properties['cbc:PriceAmount'].$ref = '#/$defs/dataTypes/Quantity';

const complain = (name, what) => console.log(JSON.stringify({ name, what }));

const parser = new XMLParser({
  preserveOrder: true, ignoreAttributes: false, attributeNamePrefix: '@', parseTagValue: false, parseAttributeValue: false,
  trimValues: false, processEntities: true,
});

// element turns what the parser gives into {tag, attrs, text, kids}.
function element(raw) {
  const tag = Object.keys(raw).find((k) => k !== ':@');
  const inner = raw[tag];
  const kids = inner.filter((k) => !('#text' in k)).map(element);
  const text = kids.length ? '' : inner.map((k) => k['#text']).join('');
  return { tag, attrs: raw[':@'] || {}, text, kids };
}

const read = (file) => element(parser.parse(fs.readFileSync(file, 'utf8')).find((n) => !('?xml' in n)));
const parse = (text) => element(parser.parse(text).find((n) => !('?xml' in n)));

// toData is the data of an element, as the schema has it.
function toData(el, schema, path, bad) {
  const out = {};
  let last = -1;
  const order = Object.keys(schema.properties).filter((k) => !k.includes('@'));
  for (const kid of el.kids) {
    const at = order.indexOf(kid.tag);
    if (at < 0) { bad(path + ': ' + kid.tag + ' is not known here'); continue; }
    if (at < last) bad(path + ': ' + kid.tag + ' comes after ' + order[last]);
    last = Math.max(last, at);
    let of = schema.properties[kid.tag];
    const many = of.type === 'array';
    if (many) of = of.items;
    const value = kid.kids.length ? toData(kid, of, path + '/' + kid.tag, bad) : kid.text;
    if (many) (out[kid.tag] = out[kid.tag] || []).push(value);
    else if (kid.tag in out) bad(path + ': ' + kid.tag + ' is given twice');
    else out[kid.tag] = value;
    for (const [name, text] of Object.entries(kid.attrs)) {
      const key = kid.tag + name;
      if (!(key in schema.properties)) bad(path + ': ' + key + ' is not known here');
      else out[key] = text;
    }
  }
  return out;
}

// leaves are all paths with their texts, in order.
function leaves(el, path = '') {
  const here = path + '/' + el.tag;
  if (!el.kids.length) {
    const attrs = Object.entries(el.attrs).filter(([k]) => !k.startsWith('@xmlns')).map(([k, v]) => k + '=' + v).sort();
    return [here + attrs.map((a) => '[' + a + ']').join('') + ' = ' + el.text];
  }
  return el.kids.flatMap((k) => leaves(k, here));
}

// numbers that are written differently are still the same.
const same = (leaf) => leaf.replace(/= (-?\d+\.\d*?)0+$/, '= $1').replace(/= (-?\d+)\.$/, '= $1');

function compare(name, what, ours, theirs, skip, change = (l) => l) {
  const keep = (list) => list.map((l) => change(same(l))).filter((l) => !skip.some((s) => l.includes(s)));
  const a = keep(leaves(ours)), b = keep(leaves(theirs));
  for (const l of a) if (!b.includes(l)) complain(name, what + ': only ours has ' + l);
  for (const l of b) if (!a.includes(l)) complain(name, what + ': only theirs has ' + l);
}

// generator does what the library's InvoiceService does, but compiles the schema
// once and not for every document.
function generator(format) {
  const quiet = { log() {}, warn() {}, error() {}, info() {}, debug() {} };
  const writer = new FormatFactoryService().createFormatService(format, quiet);
  const schema = structuredClone(invoiceSchema);
  writer.patchSchema(schema);
  const valid = new Ajv({ strict: true, allErrors: true, useDefaults: true }).compile(schema);
  return async (data) => {
    const invoice = structuredClone({ 'ubl:Invoice': data });
    if (!valid(invoice)) throw new Error(JSON.stringify(valid.errors).slice(0, 2000));
    writer.fillInvoiceDefaults(invoice);
    return parse(await writer.generate(invoice, { format, lang: 'en', noWarnings: true }));
  };
}

const writeUBL = generator('UBL'), writeCII = generator('CII');

async function kit(name) {
  try {
    const found = (await FacturX.fromXML(fs.readFileSync(name + '.cii.xml'))).validate();
    if (!found.valid) complain(name, 'factur-x-kit: ' + JSON.stringify(found.errors || found).slice(0, 2000));
  } catch (e) {
    complain(name, 'factur-x-kit: ' + e);
  }
}

async function eu(name) {
  const ours = read(name + '.ubl.xml');
  if (ours.tag !== 'Invoice') return; // the library knows no CreditNote
  const bad = (what) => complain(name, 'UBL: ' + what);
  const data = toData(ours, invoiceSchema.properties['ubl:Invoice'], '', bad);
  try {
    compare(name, 'UBL', ours, await writeUBL(data), ['/cbc:CustomizationID', '/cbc:ProfileID']);
    // Their CII lacks some of what UBL and CII write differently, and has slips of
    // its own (a capital in the card holder's name, which the schema refuses).
    compare(name, 'CII', read(name + '.cii.xml'), await writeCII(data), [
      '/rsm:ExchangedDocumentContext/', '/ram:ApplicableHeaderTradeDelivery =', 'TradeParty/ram:GlobalID', '/ram:DueDateTypeCode',
      '/ram:TaxPointDate/', '/ram:CreditorReferenceID', '/ram:IssuerAssignedID = NA',
    ], (l) => l.replace('[@schemeID=TAX]', '[@schemeID=FC]').replace('CardHolderName', 'CardholderName')
      .replace('PayeePartyCreditorFinancialAccount/ram:ProprietaryID', 'PayeePartyCreditorFinancialAccount/ram:IBANID')
      .replace(/(AllowanceCharge\/ram:\w+Amount)\[@currencyID=[A-Z]+\]/, '$1'));
  } catch (e) {
    complain(name, '@e-invoice-eu/core: ' + e.stack);
  }
}

(async () => {
  for (const name of process.argv.slice(3)) {
    await kit(name);
    await eu(name);
  }
})();
