import { expect } from 'chai';
import { readIdpMetadata } from '../../../../../src/features/sso/saml-metadata.ts';
import { AppError } from '../../../../../src/platform/errors.ts';
import { processorMs } from '../../../../support/processor-time.ts';
import { samlFile } from '../../../../support/saml-certificates.ts';

const NOW = new Date('2027-11-22T12:00:00Z');
const SIGNING = samlFile('signing.pem');
const NEXT = samlFile('next.pem');
const bare = (pem: string) => pem.replace(/-----[A-Z ]+-----/g, '').trim();
const key = (pem: string, use = 'use="signing"') =>
  `<md:KeyDescriptor ${use}><ds:KeyInfo xmlns:ds="http://www.w3.org/2000/09/xmldsig#"><ds:X509Data>
    <ds:X509Certificate>${bare(pem)}</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>`;
const service = (binding: string, url: string) =>
  `<md:SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:${binding}" Location="${url}"/>`;
const BOTH =
  service('HTTP-POST', 'https://idp.example/post') +
  service('HTTP-Redirect', 'https://idp.example/sso?a=1&amp;b=2');
const role = (content: string, name = 'IDPSSODescriptor') =>
  `<md:${name} protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">${content}</md:${name}>`;
const entity = (roles: string, attributes = 'entityID="https://idp.example/metadata"') =>
  `<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" ${attributes}>${roles}</md:EntityDescriptor>`;
const GOOD = entity(role(key(SIGNING) + BOTH));

describe('metadata of a SAML identity provider', () => {
  it('gives the entity ID, the address for HTTP-Redirect and every signing certificate', () => {
    const keys = key(SIGNING) + key(NEXT, '') + key(samlFile('foreign.pem'), 'use="encryption"');
    const xml = `<?xml version="1.0"?>\n<!-- of our provider -->\n${entity(role(keys + BOTH) + role('', 'SPSSODescriptor'))}\n`;
    expect(readIdpMetadata(xml, NOW)).to.deep.equal({
      entityId: 'https://idp.example/metadata',
      ssoUrl: 'https://idp.example/sso?a=1&b=2',
      certificate: SIGNING + NEXT,
    });
    expect(readIdpMetadata(`<EntitiesDescriptor>${GOOD}</EntitiesDescriptor>`, NOW).certificate).to.equal(
      SIGNING,
    );
  });

  it('is refused with the reason if it cannot be used', () => {
    const redirect = service('HTTP-Redirect', 'https://idp.example/sso');
    const refused: [string, RegExp][] = [
      ['', /not well-formed/],
      ['<html><body>Sign in', /not well-formed/],
      [GOOD.replace('</md:IDPSSODescriptor>', ''), /not well-formed/],
      [GOOD.replaceAll('md:', 'other:').replace('xmlns:other', 'xmlns:md'), /not well-formed/],
      [GOOD + GOOD, /not well-formed|not one XML document/],
      ['<html/>', /describes no identity provider/],
      [entity(role('', 'SPSSODescriptor')), /describes no identity provider/],
      [GOOD.replace('SAML:2.0:protocol', 'SAML:1.1:protocol'), /describes no identity provider/],
      [GOOD.replace('SAML:2.0:metadata', 'other'), /describes no identity provider/],
      [`<all>${GOOD}${GOOD}</all>`, /several identity providers/],
      [entity(role(key(SIGNING) + redirect), ''), /entityID must have 1 to 500/],
      [GOOD.replace('idp.example/metadata', 'i'.repeat(600)), /entityID must have 1 to 500/],
      [entity(role(key(SIGNING) + BOTH), 'entityID="a" validUntil="2027-11-22T11:00:00Z"'), /has expired/],
      [entity(role(key(SIGNING) + BOTH), 'entityID="a" validUntil="soon"'), /has expired/],
      [GOOD.replace('HTTP-Redirect', 'SOAP'), /no SingleSignOnService with the HTTP-Redirect binding/],
      [GOOD.replace('https://idp.example/sso', 'http://idp.example/sso'), /must be an https URL/],
      [GOOD.replace('https://idp.example/sso', 'javascript:alert(1)'), /must be an https URL/],
      [entity(role(BOTH)), /contains no signing certificate/],
      [entity(role(key(samlFile('expired.pem')) + BOTH)), /certificate has expired on 2021-01-01/],
      [entity(role(key(samlFile('weak.pem')) + BOTH)), /at least 2048 bits/],
      [entity(role(key('AAAA') + BOTH)), /must be a certificate in PEM form/],
    ];
    for (const [xml, reason] of refused) {
      expect(() => readIdpMetadata(xml, NOW), xml).to.throw(AppError, reason);
    }
  });

  it('is never asked for entities, and costs little whatever it holds', async () => {
    const external = `<!DOCTYPE md [<!ENTITY x SYSTEM "file:///etc/passwd">]>${GOOD}`;
    const laughs = `<!DOCTYPE l [<!ENTITY a "aaaa">${Array.from({ length: 30 }, (_, i) => `<!ENTITY a${i} "&a;&a;">`).join('')}]>${GOOD}`;
    expect(() => readIdpMetadata(external, NOW)).to.throw(AppError, /document type/);
    expect(() => readIdpMetadata(laughs, NOW)).to.throw(AppError, /document type/);
    expect(() => readIdpMetadata(GOOD.replace('</md:Ent', '&x;</md:Ent'), NOW)).to.throw(AppError, /entity/);
    const spentMs = await processorMs(() => {
      expect(() => readIdpMetadata('x'.repeat(1 << 20), NOW)).to.throw(AppError, /larger than 512 kB/);
      expect(() => readIdpMetadata('<a>'.repeat(100_000), NOW)).to.throw(AppError, /not well-formed/);
      expect(() => readIdpMetadata(`<a>${'<b/>'.repeat(100_000)}</a>`, NOW)).to.throw(
        AppError,
        /describes no/,
      );
    });
    expect(spentMs).to.be.lessThan(5000);
  });
});
