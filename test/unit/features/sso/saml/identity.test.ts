import { expect } from 'chai';
import { type Assertion, identityOf } from '../../../../../src/features/sso/saml-response.ts';

const CLAIM = 'http://schemas.xmlsoap.org/ws/2005/05/identity/claims';
const EMAIL_FORMAT = 'urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress';
const MAPPING = { email: 'email', name: 'name' };

const asserted = (
  attributes: Record<string, string[]>,
  { nameId = 'u-1', ...rest }: Partial<Assertion> = {},
): Assertion => ({
  id: '_1',
  expiresAt: new Date(),
  nameId,
  nameIdFormat: undefined,
  contextClasses: [],
  attributes: new Map(Object.entries(attributes)),
  ...rest,
});

describe('the identity in an assertion', () => {
  it('is read by the names of the mapping, then by claim URIs and OIDs', () => {
    const byClaims = identityOf(
      asserted({
        [`${CLAIM}/emailaddress`]: ['ada@example.com'],
        [`${CLAIM}/name`]: ['Ada Lovelace'],
        'http://schemas.microsoft.com/ws/2008/06/identity/claims/groups': ['a', 'b'],
      }),
      MAPPING,
    );
    expect(byClaims).to.include({ subject: 'u-1', email: 'ada@example.com', name: 'Ada Lovelace' });
    expect(byClaims.profile['groups']).to.deep.equal(['a', 'b']);

    const byOids = identityOf(
      asserted({
        'urn:oid:0.9.2342.19200300.100.1.3': ['ada@example.com'],
        'urn:oid:2.5.4.42': ['Ada'],
        'urn:oid:2.5.4.4': ['Lovelace'],
      }),
      MAPPING,
    );
    expect(byOids).to.include({ email: 'ada@example.com', name: 'Ada Lovelace' });
    const { name } = identityOf(
      asserted({ 'urn:oid:2.16.840.1.113730.3.1.241': ['Ada L.'], 'urn:oid:2.5.4.42': ['Ada'] }),
      MAPPING,
    );
    expect(name).to.equal('Ada L.');

    const mapped = identityOf(
      asserted({
        [`${CLAIM}/emailaddress`]: ['old@example.com'],
        mail: ['ada@example.com'],
        cn: ['Ada'],
        role: ['x'],
      }),
      { email: 'mail', name: 'cn', groups: 'role' },
    );
    expect(mapped).to.include({ email: 'ada@example.com', name: 'Ada' });
    expect(mapped.profile['groups']).to.deep.equal(['x']);
  });

  it('takes the first of several values', () => {
    const { email } = identityOf(asserted({ email: ['first@example.com', 'second@example.com'] }), MAPPING);
    expect(email).to.equal('first@example.com');
  });

  it('takes the first address, wherever it is named', () => {
    const email = (attributes: Record<string, string[]>) => identityOf(asserted(attributes), MAPPING).email;
    expect(email({ email: ['', 'Ada', ' ada@example.com '] })).to.equal('ada@example.com');
    expect(email({ email: ['ada'], [`${CLAIM}/emailaddress`]: ['ada@example.com'] })).to.equal(
      'ada@example.com',
    );
    expect(email({ [`${CLAIM}/upn`]: ['ada@example.com'] })).to.equal('ada@example.com');
    expect(email({ [`${CLAIM}/upn`]: ['EXAMPLE\\ada'] })).to.equal(undefined);
  });

  it('has an email address from the NameID only if that says that it is one', () => {
    const named = { nameId: 'ada@example.com' };
    expect(identityOf(asserted({}, { ...named, nameIdFormat: EMAIL_FORMAT }), MAPPING).email).to.equal(
      'ada@example.com',
    );
    expect(identityOf(asserted({}, named), MAPPING).email).to.equal(undefined);
  });

  it('has no verified address, and one that is not verified if the provider says so', () => {
    const emailVerified = (value: string[]) =>
      identityOf(asserted(value.length === 0 ? {} : { email_verified: value }), MAPPING).emailVerified;
    expect(emailVerified([])).to.equal(undefined);
    expect(emailVerified(['true'])).to.equal(undefined);
    expect(emailVerified(['False'])).to.equal(false);
  });

  it('says that a second factor was used if the provider says so', () => {
    const mfa = (contextClasses: string[], attributes = {}) =>
      identityOf(asserted(attributes, { contextClasses }), MAPPING).mfa;
    const multiple = 'http://schemas.microsoft.com/claims/multipleauthn';
    expect(mfa(['urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport'])).to.equal(false);
    expect(mfa(['https://refeds.org/profile/mfa'])).to.equal(true);
    expect(mfa([multiple])).to.equal(true);
    const methods = 'http://schemas.microsoft.com/claims/authnmethodsreferences';
    expect(mfa([], { [methods]: ['urn:password', multiple] })).to.equal(true);
    expect(mfa([], { other: [multiple] })).to.equal(false);
  });

  it('survives attributes with the names of what every object has', () => {
    const names = ['__proto__', 'constructor', 'toString', 'hasOwnProperty'];
    const attributes = new Map(names.map((name) => [name, ['x']]));
    const { profile } = identityOf(
      { ...asserted({}), attributes },
      { email: 'constructor', name: '__proto__' },
    );
    expect(Object.keys(profile['attributes'] ?? {})).to.deep.equal(names);
    expect(Object.prototype).to.not.have.property('x');
    expect(JSON.parse(JSON.stringify(profile)).nameId).to.equal('u-1');
  });
});
