import { XMLParser } from 'fast-xml-parser';

/** Names and URIs that the SAML 2.0 standards define. */

export const NAMESPACE = {
  assertion: 'urn:oasis:names:tc:SAML:2.0:assertion',
  protocol: 'urn:oasis:names:tc:SAML:2.0:protocol',
  metadata: 'urn:oasis:names:tc:SAML:2.0:metadata',
  signature: 'http://www.w3.org/2000/09/xmldsig#',
} as const;

export const REDIRECT_BINDING = 'urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect';
export const BEARER = 'urn:oasis:names:tc:SAML:2.0:cm:bearer';
export const SUCCESS = 'urn:oasis:names:tc:SAML:2.0:status:Success';

export const NAME_ID_FORMAT = {
  email: 'urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress',
  transient: 'urn:oasis:names:tc:SAML:2.0:nameid-format:transient',
} as const;

const EXCLUSIVE_FORM = 'http://www.w3.org/2001/10/xml-exc-c14n#';

/**
 * The permitted algorithms of each element of a signature. SHA-1 is missing, and so are transforms that could hide text
 * from the signature.
 */
export const SIGNATURE_ALGORITHMS: ReadonlyMap<string, readonly string[]> = new Map(
  Object.entries({
    CanonicalizationMethod: [EXCLUSIVE_FORM, `${EXCLUSIVE_FORM}WithComments`],
    SignatureMethod: [
      'http://www.w3.org/2001/04/xmldsig-more#rsa-sha256',
      'http://www.w3.org/2001/04/xmldsig-more#rsa-sha512',
    ],
    DigestMethod: ['http://www.w3.org/2001/04/xmlenc#sha256', 'http://www.w3.org/2001/04/xmlenc#sha512'],
    Transform: [
      'http://www.w3.org/2000/09/xmldsig#enveloped-signature',
      EXCLUSIVE_FORM,
      `${EXCLUSIVE_FORM}WithComments`,
    ],
  }),
);

/** AuthnContextClassRef, or a value of `AUTHENTICATION_METHODS`, of people who have used a second factor. */
export const MULTI_FACTOR: readonly string[] = [
  'https://refeds.org/profile/mfa',
  'http://schemas.microsoft.com/claims/multipleauthn',
];
export const AUTHENTICATION_METHODS = 'http://schemas.microsoft.com/claims/authnmethodsreferences';

const CLAIM = 'http://schemas.xmlsoap.org/ws/2005/05/identity/claims';

/**
 * The standard attributes for address, name and groups, used if those of the provider's mapping are missing (SPEC
 * 2.11).
 */
export const STANDARD_ATTRIBUTES = {
  // AD FS often sends only the user principal name, which has the form of an address.
  email: [`${CLAIM}/emailaddress`, 'urn:oid:0.9.2342.19200300.100.1.3', `${CLAIM}/upn`],
  // Some providers send the sign-in name in the claim `name`, so an attribute that is certainly a name comes first.
  name: ['urn:oid:2.16.840.1.113730.3.1.241', `${CLAIM}/name`],
  firstName: [`${CLAIM}/givenname`, 'urn:oid:2.5.4.42'],
  lastName: [`${CLAIM}/surname`, 'urn:oid:2.5.4.4'],
  groups: [
    'http://schemas.microsoft.com/ws/2008/06/identity/claims/groups',
    'http://schemas.xmlsoap.org/claims/Group',
  ],
} as const;

/**
 * Parses untrusted XML, and refuses the dangerous features of XML. fast-xml-parser parses the text and resolves
 * nothing; this file resolves namespaces and character references.
 */

export interface XmlElement {
  /** The namespace URI; empty if the element has none. */
  namespace: string;
  /** The name without its prefix. */
  name: string;
  /** The attributes without a prefix. SAML needs no others. */
  attributes: ReadonlyMap<string, string>;
  children: readonly XmlElement[];
  /**
   * The text of this element, without the text of its children, and without the blanks around it: many providers write
   * values on lines of their own.
   */
  text: string;
}

/** The XML is broken or refused. The message is for the person who supplied the XML. */
export class XmlFault extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'XmlFault';
  }
}

export interface XmlRules {
  maxBytes?: number;
  maxElements?: number;
  maxAttributes?: number;
  /** If true, comments, CDATA sections and processing instructions are refused. */
  isPlain?: true;
}

const MAX_DEPTH = 50;
/** Text may match these patterns too, so the count may be too high but never too low. */
const ELEMENT = /<(?!\/)/g;
const ATTRIBUTE = /=\s*["']/g;
const XML_NAMESPACE = 'http://www.w3.org/XML/1998/namespace';

const parser = new XMLParser({
  preserveOrder: true,
  ignoreAttributes: false,
  attributeNamePrefix: '',
  parseTagValue: false,
  parseAttributeValue: false,
  trimValues: false,
  processEntities: false,
  maxNestedTags: MAX_DEPTH,
});

/** @throws XmlFault */
export function parseXml(text: string, rules: XmlRules): XmlElement {
  const { maxBytes = Number.POSITIVE_INFINITY, maxElements, maxAttributes, isPlain } = rules;
  if (Buffer.byteLength(text) > maxBytes) throw new XmlFault(`is larger than ${maxBytes >> 10} kB`);
  if (hasMore(text, ELEMENT, maxElements)) throw new XmlFault(`has more than ${maxElements} elements`);
  if (hasMore(text, ATTRIBUTE, maxAttributes)) {
    throw new XmlFault(`has more than ${maxAttributes} attributes`);
  }
  // Entities can only be declared in a document type.
  if (/<!(DOCTYPE|ENTITY|ELEMENT|ATTLIST|NOTATION)/i.test(text)) throw new XmlFault('has a document type');
  const content = text.replace(/^\uFEFF?\s*<\?xml\s[^<>]*\?>/, '');
  if (isPlain && /<[!?]/.test(content)) {
    throw new XmlFault('has comments, CDATA sections or processing instructions');
  }
  const roots = elementsOf(splitXml(content), new Map([['xml', XML_NAMESPACE]]));
  const [root] = roots;
  if (root === undefined || roots.length > 1) throw new XmlFault('is not one XML document');
  return root;
}

function hasMore(text: string, pattern: RegExp, limit = Number.POSITIVE_INFINITY): boolean {
  let left = limit;
  for (const _found of text.matchAll(pattern)) {
    if (--left < 0) return true;
  }
  return false;
}

export function childrenOf(parent: XmlElement, namespace: string, name: string): XmlElement[] {
  return parent.children.filter((child) => child.namespace === namespace && child.name === name);
}

/** The element and everything below it. */
export function* withDescendants(element: XmlElement): Generator<XmlElement> {
  yield element;
  for (const child of element.children) yield* withDescendants(child);
}

function splitXml(text: string): unknown {
  try {
    return parser.parse(text, true);
  } catch (error) {
    throw new XmlFault('is not well-formed XML', { cause: error });
  }
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The parser's names for the attributes and for the text of an element. */
const ATTRIBUTES = ':@';
const TEXT = '#text';
const NAME = /^(?:([\p{L}_][\p{L}\p{N}._-]*):)?([\p{L}_][\p{L}\p{N}._-]*)$/u;

function elementsOf(nodes: unknown, outer: ReadonlyMap<string, string>): XmlElement[] {
  if (!Array.isArray(nodes)) return [];
  return nodes.filter(isRecord).flatMap((node) => {
    const tag = Object.keys(node).find((key) => key !== ATTRIBUTES);
    // Processing instructions, which occur only without `isPlain`, are skipped.
    if (tag === undefined || tag === TEXT || tag.startsWith('?')) return [];
    return [elementOf(tag, node[tag], node[ATTRIBUTES], outer)];
  });
}

function elementOf(
  tag: string,
  content: unknown,
  attributes: unknown,
  outer: ReadonlyMap<string, string>,
): XmlElement {
  const written = Object.entries(isRecord(attributes) ? attributes : {}).map(
    ([name, value]) => [name, resolved(String(value))] as const,
  );
  const declared = written.flatMap(([name, value]): [string, string][] => {
    if (name === 'xmlns') return [['', value]];
    return name.startsWith('xmlns:') ? [[name.slice('xmlns:'.length), value]] : [];
  });
  const namespaces = declared.length === 0 ? outer : new Map([...outer, ...declared]);
  const [, prefix = '', name] = NAME.exec(tag) ?? [];
  const namespace = namespaces.get(prefix) ?? (prefix === '' ? '' : undefined);
  if (name === undefined || namespace === undefined) throw new XmlFault('is not well-formed XML');
  return {
    namespace,
    name,
    attributes: new Map(written.filter(([key]) => key !== 'xmlns' && !key.includes(':'))),
    children: elementsOf(content, namespaces),
    text: textOf(content),
  };
}

function textOf(content: unknown): string {
  if (!Array.isArray(content)) return '';
  return content
    .filter(isRecord)
    .map((node) => (TEXT in node ? resolved(String(node[TEXT])) : ''))
    .join('')
    .trim();
}

const NAMED = new Map(Object.entries({ amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }));

/** Replaces character references and the five named entities of XML. Without a document type there are no others. */
function resolved(text: string): string {
  return text.replace(/&([^;&]{0,10});?/g, (written, name: string) => {
    const digits = /^#(?:x([0-9a-fA-F]+)|([0-9]+))$/.exec(name);
    const character =
      digits === null
        ? NAMED.get(name)
        : characterOf(parseInt(digits[1] ?? digits[2] ?? '', digits[1] ? 16 : 10));
    if (character === undefined || !written.endsWith(';')) throw new XmlFault('has an unknown entity');
    return character;
  });
}

/** The characters that XML allows; the others are refused, as Postgres refuses them too. */
function characterOf(code: number): string | undefined {
  const isAllowed =
    code === 0x9 ||
    code === 0xa ||
    code === 0xd ||
    (code >= 0x20 && code <= 0xd7ff) ||
    (code >= 0xe000 && code <= 0xfffd) ||
    (code >= 0x10000 && code <= 0x10ffff);
  return isAllowed ? String.fromCodePoint(code) : undefined;
}
