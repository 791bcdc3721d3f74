import { expect } from 'chai';
import type { Request } from 'express';
import type { Caller, ClientInfo } from '../../../src/platform/context.ts';
import type { AppError } from '../../../src/platform/errors.ts';
import { authorize, bearerToken, signIn, signInAgent } from '../../../src/platform/http/authentication.ts';
import { CALLER } from '../../support/feed-client.ts';

const request = (authorization: string | undefined, id: unknown = 'device-1') =>
  ({
    get: (name: string) => (name === 'authorization' ? authorization : undefined),
    params: { id },
  }) as unknown as Request;
const CLIENT = { ip: '10.0.0.7' } as unknown as ClientInfo;
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'allowed',
    (error: AppError) => error.code,
  );

describe('the token of a request', () => {
  it('is what follows Bearer, whatever the case of that word', () => {
    expect(bearerToken(request('Bearer abc.DEF-1_2~+/='))).to.equal('abc.DEF-1_2~+/=');
    expect(bearerToken(request('bEARER a'))).to.equal('a');
    expect(bearerToken(request(`Bearer ${'a'.repeat(4096)}`))).to.have.length(4096);
  });

  it('is none in any other form', () => {
    for (const header of [
      undefined,
      '',
      'Bearer',
      'Bearer ',
      'Bearer  a',
      'Bearer a b',
      'xBearer a',
      'Basic a',
      'Bearer a,b',
      ' Bearer a',
      'Bearer a ',
      `Bearer ${'a'.repeat(4097)}`,
    ]) {
      expect(bearerToken(request(header)), JSON.stringify(header)).to.equal(undefined);
    }
  });

  it('identifies the caller, with the address that the call came from', async () => {
    const authenticator = {
      authenticate: async (token: string, client: ClientInfo) =>
        token === 'good' && client === CLIENT ? CALLER : Promise.reject(new Error('wrong')),
    };
    expect(await signIn(request('Bearer good'), CLIENT, authenticator)).to.equal(CALLER);
    expect(await codeOf(signIn(request(undefined), CLIENT, authenticator))).to.equal('unauthenticated');
  });

  it('of an agent is good for its own device alone', async () => {
    const agent = { deviceId: 'device-1' } as never;
    const authenticator = { authenticate: async () => agent };
    const outcome = (header: string | undefined, id?: unknown) =>
      codeOf(signInAgent(request(header, id), authenticator));
    expect(await signInAgent(request('Bearer a', 'DEVICE-1'), authenticator)).to.equal(agent);
    expect(await outcome('Bearer a', 'device-2')).to.equal('not_found');
    expect(await outcome(undefined)).to.equal('unauthenticated');
  });

  it('of an agent also names its device by the id under which it was enrolled, and means the device', async () => {
    const agent = { deviceId: 'device-1', enrolledAs: 'device-0' } as never;
    for (const named of ['DEVICE-0', 'device-1']) {
      const asked = request('Bearer a', named);
      expect(await signInAgent(asked, { authenticate: async () => agent })).to.equal(agent);
      expect(asked.params['id'], named).to.equal('device-1');
    }
  });
});

describe('the refusal of a caller', () => {
  const messageOf = (caller: Partial<Caller>, access: Parameters<typeof authorize>[1]) => {
    try {
      authorize({ ...CALLER, ...caller }, access);
      return 'allowed';
    } catch (error) {
      return (error as Error).message;
    }
  };

  it('names what the route needs', () => {
    expect(messageOf({ scope: 'partner' }, { scopes: ['system', 'organization'] })).to.equal(
      'This needs system or organization scope.',
    );
    expect(
      messageOf(
        { scope: 'partner', permissions: new Set() },
        { scopes: ['partner'], permission: 'sites:write' },
      ),
    ).to.equal('This needs the permission sites:write.');
  });

  it('follows the permissions of one resource, of all, and the exact ones', () => {
    const allowed = (...permissions: string[]) =>
      messageOf(
        { scope: 'partner', permissions: new Set(permissions) },
        { scopes: ['partner'], permission: 'sites:write' },
      ) === 'allowed';
    expect([allowed('sites:write'), allowed('sites:*'), allowed('*:*')]).to.deep.equal([true, true, true]);
    expect([allowed('sites:read'), allowed('devices:*'), allowed('*:write'), allowed('*')]).to.deep.equal([
      false,
      false,
      false,
      false,
    ]);
  });
});
