import { expect } from 'chai';
import {
  certificateFault,
  normalizedCertificates,
  usableCertificates,
} from '../../../../../src/features/sso/saml-metadata.ts';
import { samlFile } from '../../../../support/saml-certificates.ts';

const NOW = new Date('2027-11-22T12:00:00Z');
const SIGNING = samlFile('signing.pem');
const NEXT = samlFile('next.pem');
const bare = (pem: string) => pem.replace(/-----[A-Z ]+-----/g, '').trim();

describe('certificates of a SAML identity provider', () => {
  it('are read as PEM, as several, with text around them, and as bare base64', () => {
    for (const text of [SIGNING, SIGNING + NEXT, `subject=IdP\n${SIGNING}`, bare(SIGNING)]) {
      expect(certificateFault(text, NOW), text).to.equal(undefined);
    }
    expect(normalizedCertificates(bare(SIGNING))).to.equal(SIGNING);
    expect(normalizedCertificates(SIGNING.replaceAll('\n', '\r\n') + NEXT)).to.equal(SIGNING + NEXT);
    expect(usableCertificates(SIGNING + NEXT, NOW)).to.deep.equal([SIGNING, NEXT]);
  });

  it('are refused with what is wrong with them', () => {
    const faults: [string, RegExp][] = [
      ['', /must be a certificate/],
      ['not a certificate', /must be a certificate/],
      [bare(SIGNING).slice(0, 400), /must be a certificate/],
      [SIGNING + '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----', /must be a certificate/],
      [samlFile('signing.key') + SIGNING, /contains a private key/],
      [samlFile('weak.pem'), /at least 2048 bits; this one has 1024/],
      [SIGNING + samlFile('weak.pem'), /at least 2048 bits/],
      [samlFile('elliptic.pem'), /must have an RSA key/],
      [samlFile('expired.pem'), /has expired on 2021-01-01/],
      [samlFile('future.pem'), /is not valid before 2120-01-01/],
      [SIGNING.repeat(11), /at most 10/],
    ];
    for (const [text, fault] of faults) expect(certificateFault(text, NOW), text).to.match(fault);
  });

  it('may hold one that has expired or is not valid yet beside one that can be used', () => {
    const text = samlFile('expired.pem') + SIGNING + samlFile('future.pem');
    expect(certificateFault(text, NOW)).to.equal(undefined);
    expect(usableCertificates(text, NOW)).to.deep.equal([SIGNING]);
  });
});
