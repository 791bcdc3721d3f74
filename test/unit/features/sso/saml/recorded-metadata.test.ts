import { X509Certificate } from 'node:crypto';
import { expect } from 'chai';
import {
  certificateFault,
  normalizedCertificates,
  readIdpMetadata,
  usableCertificates,
} from '../../../../../src/features/sso/saml-metadata.ts';
import { AppError } from '../../../../../src/platform/errors.ts';
import { describeRecorded } from '../../../../support/recorded.ts';

/** Metadata and certificates of real providers, and those that other SAML libraries test themselves with. */

const ONELOGIN = {
  entityId: 'https://app.onelogin.com/saml/metadata/383123',
  ssoUrl: 'https://app.onelogin.com/trust/saml2/http-post/sso/383123',
};
const HELLO = {
  entityId: 'https://hello.example.com/access/saml/idp.xml',
  ssoUrl: 'https://hello.example.com/access/saml/login',
};
const TESTSHIB = {
  entityId: 'https://idp.testshib.org/idp/shibboleth',
  ssoUrl: 'https://idp.testshib.org/idp/profile/SAML2/Redirect/SSO',
};

/** What is imported, and how many certificates, at a time at which the newest of them is a day old. */
const IMPORTED: Readonly<Record<string, { entityId: string; ssoUrl: string; certificates: number }>> = {
  'crewjam/SP_IDPMetadata.xml': { ...TESTSHIB, certificates: 1 },
  'crewjam/TestGetArtifactBindingLocation_IDPMetadata.xml': {
    entityId: 'https://samltest.id/saml/idp',
    ssoUrl: 'https://samltest.id/idp/profile/SAML2/Redirect/SSO',
    certificates: 2,
  },
  'crewjam/TestSPCanHandleOktaResponseEncryptedAssertionBothSigned_IDPMetadata.xml': {
    entityId: 'http://www.okta.com/exkppsa1qwuFV4D7z0h7',
    ssoUrl: 'https://dev-513394.oktapreview.com/app/rstudioincdev513394_dev_1/exkppsa1qwuFV4D7z0h7/sso/saml',
    certificates: 1,
  },
  'python3-saml-metadata/idp_metadata.xml': { ...ONELOGIN, certificates: 1 },
  'python3-saml-metadata/idp_metadata_same_sign_and_encrypt_cert.xml': { ...ONELOGIN, certificates: 1 },
  // It describes an identity provider and a service provider.
  'python3-saml-metadata/testshib-providers.xml': { ...TESTSHIB, certificates: 1 },
  'ruby-saml-metadata/idp_descriptor_5.xml': { ...HELLO, certificates: 1 },
  'ruby-saml-metadata/idp_descriptor_6.xml': { ...HELLO, certificates: 1 },
  'ruby-saml-metadata/idp_metadata_different_sign_and_encrypt_cert.xml': { ...ONELOGIN, certificates: 1 },
  'ruby-saml-metadata/idp_metadata_same_sign_and_encrypt_cert.xml': { ...ONELOGIN, certificates: 1 },
};

/** The first line that names a file counts. */
const REFUSED: readonly [reason: RegExp, file: RegExp][] = [
  [/describes no identity provider/, /node-saml\/|no_idp_descriptor/],
  [/several identity providers/, /multiple_descriptors/],
  // As their authors have shortened them: these providers offer HTTP-Redirect as well.
  [/no SingleSignOnService with the HTTP-Redirect binding/, /HandleOnelogin|HandlePlaintext|RealWorld/],
  [/must be an https URL/, /idp_metadata2/],
  [/at least 2048 bits; this one has 1024/, /./],
];

describeRecorded('sso/saml', 'recorded metadata of SAML', ({ files, text }) => {
  const documents = files.filter((file) => /metadata\w*\.xml$|-metadata\//i.test(file));

  /** A day after its newest certificate began, or the last moment at which it is valid itself. */
  const timeOf = (xml: string): Date => {
    const certificates = [...xml.matchAll(/<(?:\w+:)?X509Certificate>([^<]+)</g)].map(
      ([, base64 = '']) => new X509Certificate(Buffer.from(base64, 'base64')),
    );
    const newest = Math.max(0, ...certificates.map(({ validFrom }) => Date.parse(validFrom)));
    const validUntil = /validUntil="([^"]*)"/.exec(xml)?.[1] ?? '9999-01-01T00:00:00Z';
    return new Date(Math.min(newest + 86_400_000, Date.parse(validUntil) - 1));
  };

  it('is imported, or is refused with the reason', () => {
    expect(documents.length).to.be.greaterThan(30);
    expect(documents).to.include.members(Object.keys(IMPORTED));
    for (const file of documents) {
      const xml = text(file);
      const at = timeOf(xml);
      const expected = IMPORTED[file];
      if (expected === undefined) {
        const [reason = /in no line of the table/] = REFUSED.find(([, name]) => name.test(file)) ?? [];
        expect(() => readIdpMetadata(xml, at), file).to.throw(AppError, reason);
        continue;
      }
      const { certificate, ...found } = readIdpMetadata(xml, at);
      const certificates = usableCertificates(certificate, at).length;
      expect({ ...found, certificates }, file).to.deep.equal(expected);
    }
  });

  it('is refused once it or its certificate has expired', () => {
    for (const file of Object.keys(IMPORTED)) {
      expect(() => readIdpMetadata(text(file), new Date('2150-01-01')), file).to.throw(AppError, /expired/);
    }
  });

  it('and no other message is taken for it', () => {
    for (const file of files.filter((name) => name.endsWith('.xml') && !documents.includes(name))) {
      expect(() => readIdpMetadata(text(file)), file).to.throw(AppError);
    }
  });

  it('comes with certificates that are read, of which short keys are refused', () => {
    const certificates = files.filter((file) => /\.(pem|crt|cert)$/.test(file));
    const short = certificates.filter((file) => {
      const pem = text(file);
      const { validFrom } = new X509Certificate(pem);
      const fault = certificateFault(normalizedCertificates(pem), new Date(Date.parse(validFrom) + 1000));
      if (fault !== undefined) expect(fault).to.match(/at least 2048 bits/);
      return fault !== undefined;
    });
    expect(certificates).to.have.length(9);
    expect(short).to.deep.equal(['crewjam/idp_cert.pem', 'gosaml2/oam_cert.pem', 'ruby-saml/ruby-saml.crt']);
  });
});
