import { expect } from 'chai';
import sinon from 'sinon';
import { FlowControlledClient } from '../../../../src/hub/wire/flow-controlled-client.ts';

/** A connection below a client, which takes one message and then nothing until the test says so. */
function connection() {
  const listeners = new Set<() => void>();
  const conn = {
    readyState: 'open',
    transport: {
      writable: true,
      on: (_event: 'ready', listener: () => void) => listeners.add(listener),
      off: (_event: 'ready', listener: () => void) => listeners.delete(listener),
    },
    write() {
      conn.transport.writable = false;
    },
    close() {
      conn.readyState = 'closed';
    },
  };
  const take = () => {
    conn.transport.writable = true;
    for (const listener of listeners) listener();
  };
  return { conn, take };
}

describe('a flow-controlled client', () => {
  let clock: sinon.SinonFakeTimers;
  beforeEach(() => {
    clock = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'performance'] });
  });
  afterEach(() => clock.restore());

  it('is disconnected when one waiting sender has filled the connection and another one still waits', () => {
    const { conn, take } = connection();
    let cutOffs = 0;
    const pace = new FlowControlledClient(
      { nsp: { name: '/dashboard' }, conn },
      { onCutOff: () => void (cutOffs += 1), patienceMs: 1000 },
    );
    conn.write();
    let second = 0;
    pace.whenReady(() => conn.write());
    pace.whenReady(() => void (second += 1));
    clock.tick(500);
    take();
    clock.tick(900);
    expect([cutOffs, pace.stalledMs]).to.deep.equal([0, 900]);
    clock.tick(200);
    expect([cutOffs, second, conn.readyState]).to.deep.equal([1, 0, 'closed']);
    expect(clock.countTimers()).to.equal(0);
  });

  it('is disconnected when the connection filled while no sender waited', () => {
    const { conn } = connection();
    let cutOffs = 0;
    const pace = new FlowControlledClient(
      { nsp: { name: '/dashboard' }, conn },
      { onCutOff: () => void (cutOffs += 1), patienceMs: 1000 },
    );
    pace.whenReady(() => conn.write());
    pace.whenReady(() => {});
    clock.tick(1100);
    expect(cutOffs).to.equal(1);
  });
});
