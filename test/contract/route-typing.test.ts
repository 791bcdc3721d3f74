import { expect } from 'chai';
import { z } from 'zod';
import { RawJson, AuditedJson, route } from '../../src/platform/http/route.ts';

/** What must not compile. `npm run check:types` fails where one of these lines would be accepted. */
describe('a route declaration', () => {
  const response = z.object({ id: z.string() });

  it('cannot leave out its access', () => {
    // @ts-expect-error -- access is missing
    const row = route({ method: 'get', path: '/x', summary: 'x', response, handler: () => ({ id: '1' }) });
    expect(row).to.be.an('object');
  });

  it('cannot answer another shape than it declares', () => {
    const row = route({
      method: 'get',
      path: '/x',
      summary: 'x',
      access: 'signed-in',
      response,
      // @ts-expect-error -- id is a string
      handler: () => ({ id: 1 }),
    });
    expect(row).to.be.an('object');
  });

  it('cannot answer what is not stored if its first answer is to be repeated', () => {
    const audited = new AuditedJson('{"id":"1"}', { id: '1' });
    const row = { method: 'post', path: '/x', summary: 'x', access: 'signed-in', response } as const;
    const rows = [
      route({ ...row, handler: async () => audited }),
      // @ts-expect-error -- the text alone would be stored, inside of an object
      route({ ...row, idempotent: true, handler: async () => audited }),
      // @ts-expect-error -- the same without a promise
      route({ ...row, idempotent: true, handler: () => new RawJson('{"id":"1"}') }),
      route({ ...row, idempotent: true, handler: async () => ({ id: '1' }) }),
    ];
    expect(rows.map(({ idempotent }) => idempotent)).to.deep.equal([undefined, true, true, true]);
  });

  it('has no transaction if it says so, and none on public routes', () => {
    const rows = [
      route({
        method: 'get',
        path: '/x',
        summary: 'x',
        access: 'signed-in',
        transaction: false,
        response,
        // @ts-expect-error -- there is no tx to hold while waiting
        handler: ({ ctx }) => ({ id: String(ctx.tx) }),
      }),
      route({
        method: 'get',
        path: '/x',
        summary: 'x',
        access: 'public',
        response,
        // @ts-expect-error -- there is no caller
        handler: ({ ctx }) => ({ id: ctx.caller.userId }),
      }),
    ];
    expect(rows.map(({ transaction }) => transaction)).to.deep.equal([false, false]);
  });

  it('has no person if an agent calls, and no agent if a person does', () => {
    const agent = route({
      method: 'get',
      path: '/agents/:id/x',
      summary: 'x',
      access: 'agent',
      response,
      // @ts-expect-error -- there is no caller
      handler: ({ ctx }) => ({ id: ctx.caller.userId }),
    });
    const detached = route({
      method: 'get',
      path: '/agents/:id/x',
      summary: 'x',
      access: 'agent',
      transaction: false,
      response,
      // @ts-expect-error -- nor in the transactions that it opens itself
      handler: ({ ctx }) => ctx.withTenant(async ({ caller }) => ({ id: caller.userId })),
    });
    const person = route({
      method: 'get',
      path: '/agents/:id/x',
      summary: 'x',
      access: 'signed-in',
      response,
      // @ts-expect-error -- there is no agent
      handler: ({ ctx }) => ({ id: ctx.agent.deviceId }),
    });
    expect([agent, detached, person].map(({ transaction }) => transaction)).to.deep.equal([
      true,
      false,
      true,
    ]);
  });

  it('names the device in its path if an agent calls', () => {
    const row = route({
      method: 'get',
      // @ts-expect-error -- there is no :id that the token could be held against
      path: '/agents/heartbeat',
      summary: 'x',
      access: 'agent',
      response,
      handler: ({ ctx }) => ({ id: ctx.agent.deviceId }),
    });
    expect(row).to.be.an('object');
  });
});
