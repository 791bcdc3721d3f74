import { expect } from 'chai';
import type { Caller } from '../../../src/platform/context.ts';
import { AppError } from '../../../src/platform/errors.ts';
import { authorize } from '../../../src/platform/http/authentication.ts';
import type { PeopleAccess } from '../../../src/platform/http/route.ts';

const PERSON: Caller = {
  kind: 'user',
  scope: 'partner',
  userId: 'u',
  sessionId: 's',
  apiKeyId: null,
  email: 'e',
  name: 'n',
  partnerId: 'p',
  orgId: null,
  orgAccess: 'all',
  orgIds: [],
  roleId: 'r',
  roleName: 'r',
  permissions: new Set(['sites:*']),
  mfa: false,
  ipAllowlist: [],
};
const WITH_MFA: Caller = { ...PERSON, mfa: true };
const KEY: Caller = { ...PERSON, kind: 'api_key', sessionId: null, apiKeyId: 'k' };

describe('the access of a route', () => {
  const answer = (caller: Caller, access: PeopleAccess) => {
    try {
      authorize(caller, access);
      return 'allowed';
    } catch (error) {
      if (error instanceof AppError) return error.code;
      throw error;
    }
  };
  const all = (access: PeopleAccess) => [PERSON, WITH_MFA, KEY].map((caller) => answer(caller, access));

  it('is everyone who is signed in, or persons only', () => {
    expect(all('signed-in')).to.deep.equal(['allowed', 'allowed', 'allowed']);
    expect(all('person')).to.deep.equal(['allowed', 'allowed', 'forbidden']);
    expect(all({ scopes: ['partner'], person: true })).to.deep.equal(['allowed', 'allowed', 'forbidden']);
  });

  it('follows from scope and permission', () => {
    expect(all({ scopes: ['partner'], permission: 'sites:write' })).to.deep.equal([
      'allowed',
      'allowed',
      'allowed',
    ]);
    expect(answer(PERSON, { scopes: ['system', 'organization'] })).to.equal('forbidden');
    expect(answer(PERSON, { scopes: ['partner'], permission: 'devices:read' })).to.equal('forbidden');
  });

  it('is one with a second factor if the route asks for it, which is only revealed to callers who are otherwise allowed', () => {
    expect(all({ scopes: ['partner'], mfa: true })).to.deep.equal([
      'mfa_required',
      'allowed',
      'mfa_required',
    ]);
    expect(answer(PERSON, { scopes: ['system'], mfa: true })).to.equal('forbidden');
  });
});
