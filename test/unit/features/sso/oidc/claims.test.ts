import { expect } from 'chai';
import {
  Claims as ClaimsSchema,
  type Claims,
  identityFrom,
  isMultiFactor,
} from '../../../../../src/features/sso/oidc-claims.ts';

const mapping = { email: 'email', name: 'name' };
type Document = Record<string, unknown>;
const claims = (document: Document): Claims => ({ sub: 'subject-1', ...document });
const identity = (
  { idToken, userinfo }: { idToken?: Document; userinfo?: Document },
  by: Parameters<typeof identityFrom>[1] = mapping,
) => identityFrom({ idToken: idToken && claims(idToken), userinfo: userinfo && claims(userinfo) }, by);

describe('claims of OpenID Connect', () => {
  describe('say that an address is', () => {
    const email = 'ann@customer.test';
    const verified = (idToken: Document | undefined, userinfo?: Document) =>
      identity({ ...(idToken && { idToken }), ...(userinfo && { userinfo }) }).emailVerified;

    it('verified by true and by "true"', () => {
      for (const email_verified of [true, 'true', 'True']) {
        expect(verified({ email, email_verified })).to.equal(true);
      }
    });

    it('not verified by false, by "false", and by anything else', () => {
      for (const email_verified of [false, 'false', 'False', 'no', '', 0, 1, [true], {}]) {
        expect(verified({ email, email_verified }), JSON.stringify(email_verified)).to.equal(false);
        expect(verified(undefined, { email, email_verified })).to.equal(false);
      }
    });

    it('neither, if they do not speak of it', () => {
      expect(verified({ email })).to.equal(undefined);
      expect(verified({ email, email_verified: null })).to.equal(undefined);
    });

    it('not verified, if either document says so', () => {
      expect(verified({ email, email_verified: true }, { email, email_verified: false })).to.equal(false);
      expect(verified({ email, email_verified: false }, { email, email_verified: true })).to.equal(false);
      expect(verified({ email }, { email_verified: 'false' })).to.equal(false);
    });

    it('verified in either document, but not beside another address', () => {
      expect(verified({ email }, { email, email_verified: true })).to.equal(true);
      expect(verified({ email }, { email: 'Ann@Customer.test', email_verified: ' TRUE ' })).to.equal(true);
      expect(verified({ email_verified: true }, { email })).to.equal(true);
      expect(verified({}, { email, email_verified: true })).to.equal(true);
      expect(verified({ email }, { email: 'other@customer.test', email_verified: true })).to.equal(undefined);
      expect(verified({ email, email_verified: true }, { email: 'other@customer.test' })).to.equal(undefined);
    });

    it('verified only if it is the one that `email_verified` is about', () => {
      const byUsername = { ...mapping, email: 'preferred_username' };
      const chosen = {
        preferred_username: 'boss@customer.test',
        email: 'eve@evil.test',
        email_verified: true,
      };
      expect(identity({ idToken: chosen }, byUsername)).to.include({
        email: 'boss@customer.test',
        emailVerified: undefined,
      });
      const same = { preferred_username: 'Ann@customer.test', email, email_verified: true };
      expect(identity({ idToken: same }, byUsername).emailVerified).to.equal(true);
      const denied = { preferred_username: 'ann@customer.test', email_verified: false };
      expect(identity({ idToken: denied }, byUsername).emailVerified).to.equal(false);
    });
  });

  it('name no address if the claim is missing, empty, too long, or no text', () => {
    for (const email of [
      undefined,
      null,
      '',
      '  ',
      1,
      true,
      [],
      [null, '', {}],
      [['a@b.test']],
      'Ann Example',
      { a: 1 },
      `${'x'.repeat(250)}@b.test`,
      'a\0@b.test',
    ]) {
      const found = identity({ idToken: { email, email_verified: true } });
      expect(found).to.include({ email: undefined, emailVerified: undefined });
    }
  });

  it('name an address in a text, in a list, or with blanks around it', () => {
    const address = 'a@b.test';
    for (const email of [
      address,
      [address],
      ['', address, 'c@d.test'],
      [7, address],
      ' \ta@b.test\n',
      [' a@b.test '],
    ]) {
      expect(identity({ idToken: { email } }).email, JSON.stringify(email)).to.equal(address);
      expect(
        identity({ idToken: {}, userinfo: { emails: email } }, { email: 'emails', name: 'name' }).email,
      ).to.equal(address);
    }
  });

  it('name the address in `upn` or `preferred_username` if there is none in the mapped claim', () => {
    const byName = { preferred_username: 'ann@b.test', email_verified: true };
    expect(identity({ idToken: byName })).to.include({ email: 'ann@b.test', emailVerified: undefined });
    expect(identity({ idToken: { ...byName, upn: 'upn@b.test', email: ' ' } }).email).to.equal('upn@b.test');
    expect(identity({ idToken: byName, userinfo: { email: 'e@b.test' } }).email).to.equal('e@b.test');
    expect(identity({ idToken: { preferred_username: 'ann' } }).email).to.equal(undefined);
  });

  it('may be numbers, also the subject', () => {
    expect(identity({ idToken: { name: 4711, email: 'a@b.test' } }).name).to.equal('4711');
    expect(ClaimsSchema.parse({ sub: 4711 }).sub).to.equal('4711');
    for (const sub of [1.5, Number.MAX_SAFE_INTEGER + 1, '', '  ', true, null, ['a'], 'x'.repeat(256)]) {
      expect(ClaimsSchema.safeParse({ sub }).success, JSON.stringify(sub)).to.equal(false);
    }
  });

  it('name groups in a list or in one text', () => {
    const groups = (value: unknown) =>
      identity({ idToken: { roles: value } }, { ...mapping, groups: 'roles' }).profile.groups;
    expect(groups(['a', 'b'])).to.deep.equal(['a', 'b']);
    expect(groups('a')).to.deep.equal(['a']);
    expect(groups([1, ' b ', '', null])).to.deep.equal(['1', 'b']);
    expect(groups(undefined)).to.equal(undefined);
  });

  it('are not looked for if every object has something', () => {
    for (const name of ['constructor', '__proto__', 'toString', 'hasOwnProperty']) {
      expect(identity({ idToken: {} }, { email: name, name })).to.include({
        email: undefined,
        name: undefined,
      });
    }
  });

  it('name a person by the mapped claim, or by first and last name', () => {
    const both = { ...mapping, firstName: 'given_name', lastName: 'family_name' };
    const parts = { given_name: 'Ann', family_name: 'Example' };
    expect(identity({ idToken: { name: 'Ann E.', ...parts } }, both).name).to.equal('Ann E.');
    expect(identity({ idToken: parts }, both).name).to.equal('Ann Example');
    expect(
      identity({ idToken: { given_name: 'Ann' }, userinfo: { family_name: 'Example' } }, both).name,
    ).to.equal('Ann Example');
    expect(identity({ idToken: { family_name: 'Example' } }, both).name).to.equal('Example');
    expect(identity({ idToken: parts }).name).to.equal(undefined);
  });

  it('are kept whole, as far as they can be stored', () => {
    let deep: unknown = 'end';
    for (let depth = 0; depth < 50_000; depth++) deep = [deep];
    const { profile } = identity({
      idToken: { a: 'x\0y', 'b\0': '\ud800' },
      userinfo: { deep, groups: ['g'] },
    });
    expect(profile).to.include({ sub: 'subject-1', a: 'x\uFFFDy', 'b\uFFFD': '\uFFFD' });
    expect(profile.groups).to.deep.equal(['g']);
    expect(JSON.stringify(profile).length).to.be.lessThan(1000);
  });

  describe('say that a second factor was used', () => {
    const YES = [
      { amr: ['mfa'] },
      { amr: ['pwd', 'otp'] },
      { amr: ['hwk', 'pin'] },
      { amr: ['swk', 'fpt'] },
      { amr: ['pwd', 'sms'] },
      { acr: 'http://schemas.openid.net/pape/policies/2007/06/multi-factor' },
      { acr: 'https://refeds.org/profile/mfa' },
    ];
    const NO = [
      {},
      { amr: ['pwd'] },
      { amr: ['otp'] },
      { amr: ['hwk', 'user'] },
      { amr: ['pwd', 'pin', 'kba'] },
      { amr: ['otp', 'sms'] },
      { amr: ['pwd', 'mca', 'rba', 'geo'] },
      { amr: 'mfa' },
      { amr: { 0: 'mfa' } },
      { amr: [['mfa']] },
      { amr: ['MFA '] },
      { acr: ['https://refeds.org/profile/mfa'] },
      { acr: '2' },
    ];
    for (const document of YES) {
      it(`by ${JSON.stringify(document)}`, () => expect(isMultiFactor(document)).to.equal(true));
    }
    for (const document of NO) {
      it(`not by ${JSON.stringify(document)}`, () => expect(isMultiFactor(document)).to.equal(false));
    }

    it('in a signed document only', () => {
      expect(identity({ userinfo: { amr: ['mfa'] } }).mfa).to.equal(false);
      expect(identity({ idToken: { amr: ['mfa'] } }).mfa).to.equal(true);
    });
  });
});
