import { expect } from 'chai';
import fc from 'fast-check';
import {
  type AccountFacts,
  type Candidate,
  decideAccount,
  type DecidingProvider,
} from '../../../../../src/features/sso/account-decision.ts';
import { SsoFailure } from '../../../../../src/features/sso/sso-failure.ts';
import type { AssertedIdentity } from '../../../../../src/features/sso/sso-protocol.ts';

const ORGANIZATION: DecidingProvider = { orgId: 'org', autoProvision: true, allowedDomains: '' };
const PARTNER: DecidingProvider = { orgId: null, autoProvision: true, allowedDomains: '' };
const NOBODY: AccountFacts = { linked: undefined, byEmail: undefined, isDomainProven: true };
const ADA: AssertedIdentity = {
  subject: 'ada',
  email: 'Ada@Example.com',
  emailVerified: true,
  name: 'Ada Lovelace',
  mfa: false,
  profile: {},
};
const account = (userId: string, more: Partial<Candidate> = {}): Candidate => ({
  userId,
  isActive: true,
  isMember: true,
  ...more,
});

/** The decision as a short text. */
function decide(
  provider: DecidingProvider,
  identity: Partial<AssertedIdentity>,
  facts: Partial<AccountFacts>,
): string {
  try {
    const decision = decideAccount(provider, { ...ADA, ...identity }, { ...NOBODY, ...facts });
    return decision.kind === 'sign_in' ? decision.userId : `new ${decision.email} ${decision.name}`;
  } catch (error) {
    if (error instanceof SsoFailure) return error.reason;
    throw error;
  }
}

describe('which account a proved identity signs in to', () => {
  it('is the linked one, even if the address now belongs to another account', () => {
    expect(decide(ORGANIZATION, {}, { linked: account('linked'), byEmail: account('other') })).to.equal(
      'linked',
    );
    expect(decide(ORGANIZATION, { email: undefined }, { linked: account('linked') })).to.equal('linked');
  });

  it('is the one with the address, if the identity is not linked yet', () => {
    expect(decide(ORGANIZATION, {}, { byEmail: account('by-email') })).to.equal('by-email');
    expect(decide(PARTNER, { emailVerified: undefined }, { byEmail: account('by-email') })).to.equal(
      'by-email',
    );
  });

  it('is no account that is there already, whatever the provider says, unless the owner owns the domain', () => {
    const unproven = { byEmail: account('by-email'), isDomainProven: false };
    for (const provider of [ORGANIZATION, PARTNER]) {
      for (const emailVerified of [true, undefined]) {
        const expected = 'domain_not_proven';
        expect(decide(provider, { emailVerified }, unproven)).to.equal(expected);
      }
      expect(decide(provider, {}, { ...unproven, linked: account('linked') })).to.equal('linked');
    }
    expect(decide(ORGANIZATION, {}, { isDomainProven: false })).to.equal('new Ada@Example.com Ada Lovelace');
    expect(decide(PARTNER, {}, { isDomainProven: false })).to.equal('invitation_required');
  });

  it('is none with more permissions than the person who configured the provider, unless it is linked', () => {
    const greater = account('admin', { exceedsConfigurer: true });
    expect(decide(ORGANIZATION, {}, { byEmail: greater })).to.equal('configurer_has_less');
    expect(decide(ORGANIZATION, {}, { linked: greater })).to.equal('admin');
  });

  it('is a new one if an organization allows that', () => {
    expect(decide(ORGANIZATION, {}, {})).to.equal('new Ada@Example.com Ada Lovelace');
    expect(decide(ORGANIZATION, { name: undefined }, {})).to.equal('new Ada@Example.com Ada');
    expect(decide({ ...ORGANIZATION, autoProvision: false }, {}, {})).to.equal('account_unknown');
    expect(decide(PARTNER, {}, {})).to.equal('invitation_required');
  });

  it('is none if the address is said to be unverified, not even the linked one', () => {
    for (const provider of [ORGANIZATION, PARTNER]) {
      expect(decide(provider, { emailVerified: false }, { linked: account('linked') })).to.equal(
        'email_not_verified',
      );
    }
  });

  it('is none by an address that is not verified, unless the organization owns its domain', () => {
    const unsaid = { emailVerified: undefined };
    const unproven = { isDomainProven: false };
    expect(decide(ORGANIZATION, unsaid, unproven)).to.equal('domain_not_proven');
    expect(decide(ORGANIZATION, unsaid, { ...unproven, byEmail: account('by-email') })).to.equal(
      'domain_not_proven',
    );
    expect(decide(ORGANIZATION, unsaid, { byEmail: account('by-email') })).to.equal('by-email');
    expect(decide(ORGANIZATION, unsaid, { ...unproven, linked: account('linked') })).to.equal('linked');
  });

  it('is none outside of the allowed domains', () => {
    const limited = { ...ORGANIZATION, allowedDomains: 'example.com,xn--mller-kva.example' };
    expect(decide(limited, {}, { linked: account('linked') })).to.equal('linked');
    expect(decide(limited, { email: 'ada@MÜLLER.example' }, { byEmail: account('a') })).to.equal('a');
    for (const email of ['ada@sub.example.com', 'ada@example.com.evil.test', 'ada@example.org', undefined]) {
      expect(decide(limited, { email }, { linked: account('linked') })).to.equal('domain_not_allowed');
    }
  });

  it('is none by a text that is no address', () => {
    for (const email of ['', 'ada', 'ada@', '@example.com', 'ada@evil.test@example.com', 'a b@example.com']) {
      expect(decide(ORGANIZATION, { email }, { byEmail: account('by-email') })).to.equal('email_missing');
    }
  });

  it('is none of another tenant, and none that is disabled', () => {
    expect(decide(ORGANIZATION, {}, { linked: account('a', { isMember: false }) })).to.equal('not_a_member');
    expect(decide(ORGANIZATION, {}, { byEmail: account('a', { isMember: false }) })).to.equal('not_a_member');
    expect(decide(PARTNER, {}, { byEmail: account('a', { isActive: false }) })).to.equal('account_disabled');
  });

  it('is always an active member of the owner, or none, or new', () => {
    const candidate = fc.option(
      fc.record({ userId: fc.constantFrom('a', 'b'), isActive: fc.boolean(), isMember: fc.boolean() }),
      { nil: undefined },
    );
    fc.assert(
      fc.property(
        fc.record({ linked: candidate, byEmail: candidate, isDomainProven: fc.boolean() }),
        fc.constantFrom(true, false, undefined),
        fc.boolean(),
        fc.boolean(),
        (facts, emailVerified, isPartner, autoProvision) => {
          const provider = { ...(isPartner ? PARTNER : ORGANIZATION), autoProvision };
          const answer = decide(provider, { emailVerified }, facts);
          const chosen = facts.linked ?? facts.byEmail;
          if (answer === chosen?.userId) {
            expect(chosen).to.include({ isActive: true, isMember: true });
            expect(facts.linked !== undefined || facts.isDomainProven).to.equal(true);
          }
          if (answer.startsWith('new')) {
            expect([chosen, isPartner, autoProvision]).to.deep.equal([undefined, false, true]);
            expect(emailVerified === true || facts.isDomainProven).to.equal(true);
          }
        },
      ),
    );
  });
});
