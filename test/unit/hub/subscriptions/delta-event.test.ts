import { expect } from 'chai';
import fc from 'fast-check';
import { deltaEvent } from '../../../../src/hub/subscriptions/device-change.ts';
import { FlowControlledClient } from '../../../../src/hub/wire/flow-controlled-client.ts';
import { newId } from '../../../../src/platform/ids.ts';
import type { DevicesDelta } from '../../../../src/protocol/index.ts';
import { summary } from '../../../support/feed-client.ts';

const name = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.nat(9000).map((length) => 'é'.repeat(length)),
);
const changed = fc.array(fc.record({ id: fc.uuid(), hostname: name }), { maxLength: 12 });
const delta = fc.record(
  {
    subscriptionId: fc.constant(newId()),
    seq: fc.nat(),
    entered: fc.array(name.map(summary), { maxLength: 2 }),
    left: fc.array(fc.uuid(), { maxLength: 2 }),
    counts: fc.record({ total: fc.nat(), byStatus: fc.record({ online: fc.nat() }) }),
    complete: fc.constant(true as const),
  },
  { requiredKeys: ['subscriptionId', 'seq', 'entered', 'left', 'counts'] },
);

/** What a client sends of it: the text, and the frame made of it. */
function sent(delta: DevicesDelta) {
  const writes: { text: string; frame: Buffer }[] = [];
  const transport = { writable: true, on() {}, off() {} };
  const conn = {
    readyState: 'open',
    transport,
    write: (text: string, options: object) =>
      writes.push({
        text,
        frame: Buffer.concat((options as { wsPreEncodedFrame: Buffer[] }).wsPreEncodedFrame),
      }),
    close() {},
  };
  const client = new FlowControlledClient({ nsp: { name: '/dashboard' }, conn }, { onCutOff() {} });
  client.emitJson(deltaEvent(delta));
  const [write] = writes;
  if (write === undefined || writes.length > 1) throw new Error(`${writes.length} writes`);
  return write;
}

/** The text of a frame that is whole and not masked (RFC 6455, 5.2), if it is as long as it says. */
function textIn(frame: Buffer): string {
  const said = frame[1] ?? 0;
  const [head, length] =
    said < 126
      ? [2, said]
      : said === 126
        ? [4, frame.readUInt16BE(2)]
        : [10, Number(frame.readBigUInt64BE(2))];
  expect(frame[0]).to.equal(0x81);
  expect(frame.length - head).to.equal(length);
  return frame.toString('utf8', head);
}

describe('a frame of changes', () => {
  it('equals the delta, as text and as bytes, for one subscriber and the next', () => {
    let longest = 0;
    fc.assert(
      fc.property(changed, fc.array(delta, { minLength: 1, maxLength: 3 }), (entries, watchers) => {
        for (const one of watchers) {
          // The same objects in a list of each one's own, as subscriptions have them.
          const whole: DevicesDelta = { ...one, changed: [...entries] };
          const { text, frame } = sent(whole);
          expect(textIn(frame)).to.equal(`4${text}`);
          expect(text.slice(0, 12)).to.equal('2/dashboard,');
          expect(JSON.parse(text.slice(12))).to.deep.equal(
            JSON.parse(JSON.stringify(['devices:delta', whole])),
          );
          longest = Math.max(longest, frame.length);
        }
      }),
      { numRuns: 200 },
    );
    expect(longest).to.be.above(65_536);
  });
});
