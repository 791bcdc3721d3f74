import { expect } from 'chai';
import { z } from 'zod';
import { route } from '../../src/platform/http/route.ts';

/** What must not compile. `npm run check:types` fails where one of these lines would be accepted. */
describe('a route declaration', () => {
  const response = z.object({ id: z.string() });

  it('cannot leave out who may call it', () => {
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

  it('has no transaction where it says so, and none where nobody is signed in', () => {
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
});
