import { Readable } from 'node:stream';
import { expect } from 'chai';
import { post } from '../../../../src/features/webhooks/post.ts';

describe('the beginning of the answer to a webhook', () => {
  const message = { id: 'a', type: 'webhook.ping', createdAt: '2026-01-01T00:00:00Z', orgId: null, data: {} };
  const excerptOf = async (...pieces: (string | Buffer | Error)[]) => {
    async function* body() {
      for (const piece of pieces) {
        if (piece instanceof Error) throw piece;
        yield Buffer.from(piece);
      }
    }
    const open = () =>
      Promise.resolve({ status: 200, headers: new Headers(), body: Readable.from(body()), leave: () => {} });
    const destination = { url: 'https://receiver.test', secrets: ['whsec_c2VjcmV0LW9mLXRoaXMtdGVzdA=='] };
    return (await post({ open }, destination, message, new AbortController().signal)).responseExcerpt;
  };

  it('is all of it within 1,024 bytes', async () => {
    expect(await excerptOf('tha', 'nks')).to.equal('thanks');
    expect(await excerptOf('x'.repeat(1000), 'x'.repeat(24))).to.equal('x'.repeat(1024));
    expect(await excerptOf()).to.equal(null);
  });

  it('ends with an ellipsis if there is more, within the same bytes', async () => {
    expect(await excerptOf('x'.repeat(1000), 'x'.repeat(25))).to.equal(`${'x'.repeat(1021)}…`);
    // A character of which only a part is within the limit is left out.
    expect(await excerptOf('é'.repeat(600))).to.equal(`${'é'.repeat(510)}…`);
  });

  it('ends with an ellipsis if the rest has not arrived', async () => {
    expect(await excerptOf('begun', new Error('closed'))).to.equal('begun…');
  });
});
