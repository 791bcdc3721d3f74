import { inflateRawSync } from 'node:zlib';
import { expect } from 'chai';
import { useFakeTimers } from 'sinon';
import { type SamlSignIn, verifyResponse } from '../../../../../src/features/sso/saml.ts';
import {
  checkAssertion,
  type Expectations,
  identityOf,
  readResponse,
} from '../../../../../src/features/sso/saml-response.ts';
import { SsoFailure, type SsoFailureReason } from '../../../../../src/features/sso/sso-failure.ts';
import { describeRecorded } from '../../../../support/recorded.ts';
import { encoded } from '../../../../support/saml-forge.ts';

/**
 * Responses of real providers, and those that other SAML libraries test themselves with. Each is read at its own time, by
 * the service provider that it names, so that nothing but its content decides.
 */

/** The persons in them, by file: all whose assertion is signed with SHA-256 and was not changed since. */
const ACCEPTED: Readonly<Record<string, string>> = {
  'gosaml2/adfs_response.b64': 'paul@spstest2.com',
  'gosaml2/pingfed-pfed11_response_02.b64': 'firstlast@saml.test.nope',
  'gosaml2/pingfed-pfed11_response_03.b64': 'firstlast@saml.test.nope',
};

/** Why all others are refused. The first line that names a file counts. */
const REFUSED: readonly [SsoFailureReason, why: string, RegExp][] = [
  ['answer_invalid', 'entities, comments and CDATA sections', /attackxee|node_text_attack/],
  ['answer_invalid', 'another message', /logout|Artifact|no_saml2|\/unsigned_assertion\.|metadata\//],
  ['answer_invalid', 'two documents in one', /multiple-root-elements/],
  ['nonce_mismatch', 'nobody has asked: it names no request', /oktadev|\/onelogin_response|starfield/],
  [
    'nonce_mismatch',
    'nobody has asked',
    /saml\/(invalids-(no_status(_code)?|multiple_assertions)|no_sig.*_ns)\./,
  ],
  ['nonce_mismatch', 'nobody has asked', /response1_with|nested_nameid|undefined_recipient|_with_ampersands/],
  [
    'nonce_mismatch',
    'nobody has asked',
    /multiple_attribute|_saml2_namespace|without_attributes|response_eval/,
  ],
  [
    'nonce_mismatch',
    'nobody has asked',
    /signed_assertion_3|signed_message_and_assertion|(conceal|doubl)ed_si/,
  ],
  ['answer_invalid', 'there is no Status', /invalids-(not_before_failed|no_id)\./],
  ['recipient_mismatch', 'its Destination is empty', /empty_destination/],
  ['provider_refused', 'its Status is not success', /status_code/],
  ['assertion_encrypted', 'Muster wants them as they are', /[Ee]ncrypted(?!_attrs)|_enc\.|oktaenc|retrieval/],
  [
    'assertion_encrypted',
    'encrypted, without saying so',
    /SP_SamlR|NoIssuer|message_response2|olgn09.*(08|16|36)|_05/,
  ],
  ['answer_invalid', 'a second assertion, the attack by wrapping', /Xsw|wrapping_attack/],
  ['answer_invalid', 'further assertions in Advice, which nobody needs', /[12]advice/],
  ['algorithm_not_allowed', 'SHA-384 is nothing that node-saml knows', /adfs_response_sha384/],
  [
    'assertion_not_signed',
    'nothing is signed',
    /\/(expired|unsigned|valid_unsigned)_response|_xml_base64|test_sign/,
  ],
  [
    'assertion_not_signed',
    'nothing is signed',
    /no_audience|no_signature\.|double_status|invalids-no_nameid/,
  ],
  [
    'assertion_not_signed',
    'nothing is signed',
    /python3-saml\/invalids-(invalid_|(response_)?encrypted_attrs)/,
  ],
  ['assertion_not_signed', 'nothing is signed', /python3-saml\/invalids-no_subjectconfirmation/],
  [
    'assertion_not_signed',
    'PingFederate and Google can sign the response only',
    /pfed.*_01|CanHandlePlaintext/,
  ],
  ['assertion_not_signed', 'only the response is signed', /signatures-invalid-.*assertion-unsigned\.xml/],
  ['signature_invalid', 'persons were replaced in it', /gosaml2\/okta_response/],
  [
    'signature_invalid',
    'its signature is not of this provider',
    /signatures-invalid-response.*assertion-signed\.xml/,
  ],
  ['signature_invalid', 'the authors have changed it', /adfs_response(_sha256|_sha512|_xmlns|\.xml\.base64)/],
  ['algorithm_not_allowed', 'SHA-1', /./],
];

/** The assertions that their provider has really signed, with any algorithm: no attack is among them. */
const SIGNED =
  /gosaml2\/(adfs_response\.|onelogin-olgn09_response_55|pingfed-pfed11_response_0[23])|node-saml\/signatures-valid.*assertion-signed|python3-saml\/(double_signed_response|signed_assertion_response|valid_response|response_encrypted_nameid)|saml\/invalids-(duplicated_attributes|empty_nameid|empty_destination)|ruby-saml\/(invalids-(no_issuer_response|response_invalid_signed_element))/;

/** What is wrong within the assertions of the toolkits, which are not signed or with SHA-1 only. */
const CONTENTS: Readonly<Record<string, SsoFailureReason | 'accepted'>> = {
  'python3-saml/unsigned_response.xml.base64': 'accepted',
  'python3-saml/invalids-invalid_audience.xml.base64': 'audience_mismatch',
  'python3-saml/no_audience.xml.base64': 'audience_mismatch',
  'python3-saml/invalids-invalid_issuer_assertion.xml.base64': 'issuer_mismatch',
  'python3-saml/invalids-invalid_subjectconfirmation_inresponse.xml.base64': 'nonce_mismatch',
  'python3-saml/invalids-invalid_subjectconfirmation_noa.xml.base64': 'answer_expired',
  'python3-saml/invalids-invalid_subjectconfirmation_recipient.xml.base64': 'recipient_mismatch',
  'python3-saml/invalids-no_nameid.xml.base64': 'answer_invalid',
  'python3-saml/invalids-no_subjectconfirmation_data.xml.base64': 'answer_invalid',
  'python3-saml/invalids-no_subjectconfirmation_method.xml.base64': 'answer_invalid',
  // Its session ends two years later. Who reads it today sees one that has ended.
  'python3-saml/invalids-invalid_sessionindex.xml.base64': 'accepted',
  'ruby-saml/invalids-invalid_audience.xml.base64': 'audience_mismatch',
  'ruby-saml/response_audience_self_closed_tag.xml.base64': 'audience_mismatch',
  'ruby-saml/invalids-invalid_subjectconfirmation_inresponse.xml.base64': 'nonce_mismatch',
  'ruby-saml/invalids-invalid_subjectconfirmation_nb.xml.base64': 'answer_invalid',
  'ruby-saml/invalids-invalid_subjectconfirmation_noa.xml.base64': 'answer_expired',
  'ruby-saml/invalids-no_subjectconfirmation_data.xml.base64': 'answer_invalid',
  'ruby-saml/invalids-no_subjectconfirmation_method.xml.base64': 'answer_invalid',
};

describeRecorded('sso/saml', 'a recorded SAML response', (recordings) => {
  const files = recordings.files.filter((file) => !/metadata|\.(pem|crt|cert|json)$/i.test(file));
  const read = (file: string) => xmlOf(recordings.text(file));

  /** The certificate with which the provider says that it signs. Most messages contain it. */
  const certificateOf = (file: string): string => {
    if (file.startsWith('node-saml/')) return recordings.text('node-saml/cert.pem');
    const of = /pingfed|olgn09/.test(file) ? 'gosaml2/pingfed-pfed11_response_02.b64' : file;
    const [, written] = /X509Certificate[^>]*>([^<]+)</.exec(read(of)) ?? [];
    if (written === undefined) return recordings.text('gosaml2/okta_cert.pem');
    return `-----BEGIN CERTIFICATE-----\n${written.replace(/\s/g, '')}\n-----END CERTIFICATE-----\n`;
  };

  /** The sign-in that a message answers, as far as it says so. */
  const signInOf = (file: string): { signIn: SamlSignIn; expected: Expectations } => {
    const xml = read(file);
    const first = (pattern: RegExp, otherwise: string) => pattern.exec(xml)?.[1]?.trim() ?? otherwise;
    const issuedAt = first(/Assertion\s[^>]*IssueInstant=["']([^"']*)/, '2014-01-01T00:00:00Z');
    const recipient = first(/Recipient=["']([^"']+)/, 'https://sp.example.com/acs');
    const signIn = {
      entityId: first(/Audience>([^<]*)</, 'https://sp.example.com'),
      acsUrl: first(/Destination=["']([^"']+)/, recipient),
      ssoUrl: 'https://idp.example.com/sso',
      certificates: [certificateOf(file)],
      requestId: first(/InResponseTo=["']([^"']*)/, '_asked'),
    };
    const issuer = first(/Issuer[^>]*>([^<]*)</, 'https://idp.example.com');
    const { entityId: audience, acsUrl, requestId } = signIn;
    return {
      signIn,
      expected: { audience, acsUrl, requestId, issuer, now: new Date(Date.parse(issuedAt) + 1000) },
    };
  };

  /** node-saml reads the time of the machine. */
  const at = async <T>({ now }: Expectations, work: () => Promise<T>): Promise<T> => {
    const time = useFakeTimers({ now, toFake: ['Date'] });
    try {
      return await work();
    } finally {
      time.restore();
    }
  };

  const signedIn = ({ signIn, expected }: ReturnType<typeof signInOf>, xml: string): Promise<string> =>
    at(expected, () =>
      outcomeOf(async () => {
        const form = readResponse(encoded(xml), expected);
        const assertion = await verifyResponse(signIn, form, (signed) => checkAssertion(signed, expected));
        return identityOf(assertion, { email: 'email', name: 'name' }).subject;
      }),
    );

  const expectedOf = (file: string): string =>
    ACCEPTED[file] ?? REFUSED.find(([, , pattern]) => pattern.test(file))?.[0] ?? 'in no line of the table';

  // In parts, because the signature of each file is verified.
  for (const folder of new Set(files.map((file) => file.split('/')[0] ?? ''))) {
    const own = files.filter((file) => file.startsWith(`${folder}/`));
    it(`of ${folder} signs in its person, or is refused with the reason`, async () => {
      const found: Record<string, string> = {};
      for (const file of own) found[file] = await signedIn(signInOf(file), read(file));
      expect(found).to.deep.equal(Object.fromEntries(own.map((file) => [file, expectedOf(file)])));
    });
  }

  /** Beyond the checks of its form, which refuse most of them: that node-saml alone is not deceived either. */
  for (const part of [0, 1, 2]) {
    it(`is only as genuine as its signature, whatever its algorithm (${part + 1} of 3)`, async () => {
      for (const file of files.filter((_file, index) => index % 3 === part)) {
        const { signIn, expected } = signInOf(file);
        const xml = read(file);
        const signed = await at(expected, () => outcomeOf(() => verifyResponse(signIn, xml, (text) => text)));
        const isGenuine = SIGNED.test(file);
        expect(signed.startsWith('<'), `${file}: ${signed.slice(0, 60)}`).to.equal(isGenuine);
        if (isGenuine) expect(nameIdIn(signed), file).to.equal(nameIdIn(xml));
      }
    });
  }

  it('has an assertion whose content alone decides, were it signed', async () => {
    const { expected } = signInOf('python3-saml/unsigned_response.xml.base64');
    const found: Record<string, string> = {};
    for (const file of Object.keys(CONTENTS)) {
      found[file] = await outcomeOf(async () => {
        const [, acsUrl = ''] = /Recipient="([^"]*)/.exec(read(file)) ?? [];
        checkAssertion(
          assertionIn(read(file)),
          file.includes('_recipient') ? expected : { ...expected, acsUrl },
        );
        return 'accepted';
      });
    }
    expect(found).to.deep.equal(CONTENTS);
  });

  it('is one of those that were looked at', () => {
    expect(files.length).to.be.greaterThan(200);
    expect(files).to.include.members(Object.keys(ACCEPTED));
    const unused = REFUSED.filter(([, , pattern]) => !files.some((file) => pattern.test(file)));
    expect(unused).to.deep.equal([]);
  });

  it('is refused as it is if it is compressed, or encoded twice', async () => {
    const twice = files.filter((file) => !isPlain(recordings.text(file)));
    const packed = twice.filter((file) => !isPlain(once(recordings.text(file))));
    expect(packed.length).to.be.greaterThan(8);
    for (const file of packed) {
      const { expected } = signInOf(file);
      const outcome = await outcomeOf(async () => readResponse(recordings.text(file), expected));
      expect(outcome, file).to.equal('answer_invalid');
    }
    for (const file of twice) {
      expect(await signedIn(signInOf(file), recordings.text(file)), file).to.equal('answer_invalid');
    }
  });

  describe('that is accepted', () => {
    for (const [file, person] of Object.entries(ACCEPTED)) {
      it(`is refused if one thing is not as it should be: ${file}`, async () => {
        const { signIn, expected } = signInOf(file);
        const xml = read(file);
        const with_ = (other: Partial<SamlSignIn>, than: Partial<Expectations> = {}) =>
          signedIn({ signIn: { ...signIn, ...other }, expected: { ...expected, ...than } }, xml);
        const foreign = { certificates: [recordings.text('gosaml2/auth0_cert.pem')] };
        const later = new Date(expected.now.getTime() + 20 * 60_000);
        expect(await with_({})).to.equal(person);
        expect(await with_(foreign)).to.equal('signature_invalid');
        expect(await with_({ requestId: '_other' }, { requestId: '_other' })).to.equal('nonce_mismatch');
        expect(await with_({}, { now: later })).to.equal('answer_expired');
        expect(await with_({}, { audience: 'https://other.example' })).to.equal('audience_mismatch');
        expect(await with_({}, { acsUrl: 'https://other.example' })).to.equal('recipient_mismatch');
        expect(await with_({}, { issuer: 'https://other.example' })).to.equal('issuer_mismatch');
        const changed = xml.replaceAll(person, `x${person}`);
        expect(await signedIn({ signIn, expected }, changed)).to.equal('signature_invalid');
      });
    }
  });
});

/** As it would be signed: with the namespaces that the response declares. */
function assertionIn(xml: string): string {
  const [text = '', name = ''] = /<((?:\w+:)?Assertion)[\s\S]*<\/\1>/.exec(xml) ?? [];
  const response = /<[^?>]*Response[^>]*>/.exec(xml)?.[0] ?? '';
  const tag = text.slice(0, text.indexOf('>'));
  const missing = [...response.matchAll(/xmlns:?\w*=(?=")/g)].filter(([prefix]) => !tag.includes(prefix));
  const declared = missing.map(({ index }) => /^[^"]*"[^"]*"/.exec(response.slice(index))?.[0] ?? '');
  return text.replace(name, `${name} ${declared.join(' ')}`);
}

const nameIdIn = (xml: string) => /<(?:\w+:)?NameID[^>]*>([^<]*)/.exec(xml)?.[1];

const isPlain = (text: string) => /^\uFEFF?\s*</.test(text);
const once = (base64: string) => Buffer.from(base64, 'base64').toString();

/** Files are XML, its base64, or that of its compressed form, which belongs to another binding. */
function xmlOf(text: string): string {
  if (isPlain(text)) return text;
  const bytes = Buffer.from(text, 'base64');
  return isPlain(bytes.toString()) ? bytes.toString() : inflateRawSync(bytes).toString();
}

/** The reason of the refusal. Every other error fails the test. */
async function outcomeOf(work: () => Promise<string>): Promise<string> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof SsoFailure) return error.reason;
    throw error;
  }
}
