import { expect } from 'chai';
import { createServer } from 'node:http';
import { Server, type Socket } from 'socket.io';
import { AgentSocketFastPath } from '../../../../src/hub/wire/agent-socket-fast-path.ts';
import { chooseWire, type WirePath } from '../../../../src/hub/wire/agent-wire.ts';
import { createMetrics } from '../../../../src/platform/metrics.ts';

/** What `chooseWire` uses of a connection of the installed Engine.IO. */
const connection = (changes: object = {}) =>
  ({
    conn: {
      readyState: 'open',
      writeBuffer: [],
      sendPacket: () => {},
      pingTimeoutTimer: null,
      transport: { socket: { _sender: { sendFrame: () => {} }, _receiver: {} } },
      ...changes,
    },
  }) as unknown as Socket;

describe('the path of the messages of agents', () => {
  let io: Server;
  let warnings: unknown[];
  beforeEach(() => {
    io = new Server(createServer());
    warnings = [];
  });
  afterEach(async () => io.close());

  function choose(wanted: WirePath) {
    const metrics = createMetrics();
    const log = { warn: (fields: object, text: string) => warnings.push({ ...fields, text }) };
    // Only warnings are logged here.
    const open = chooseWire(io, wanted, { log: log as never, metrics });
    const isDirect = async () =>
      /muster_agent_wire_direct (\d)/.exec(await metrics.registry.metrics())?.[1] === '1';
    return { isDirect, open: (socket: Socket) => open(socket, new Set(), () => {}) };
  }

  it('is the direct one with the installed libraries, which have the shape that it was written for', async () => {
    const wire = choose('direct');
    expect(wire.open(connection())).to.be.instanceOf(AgentSocketFastPath);
    expect(await wire.isDirect()).to.equal(true);
    expect(warnings).to.deep.equal([]);
  });

  it('is the stock one if the operator wants it', async () => {
    const wire = choose('stock');
    expect(wire.open(connection())).not.to.be.instanceOf(AgentSocketFastPath);
    expect(await wire.isDirect()).to.equal(false);
    expect(warnings).to.deep.equal([]);
  });

  it('is the stock one, with a warning, if ws has no such reader or one of another kind', async () => {
    const found = (io.engine as unknown as { ws: { options: { WebSocket: { Receiver: unknown } } } }).ws
      .options;
    const installed = found.WebSocket;
    class Other {
      readonly state = 'INFO';
      write() {
        return true;
      }
      on() {}
    }
    for (const Receiver of [undefined, Other]) {
      found.WebSocket = { Receiver };
      const wire = choose('direct');
      expect(await wire.isDirect(), String(Receiver)).to.equal(false);
      expect(wire.open(connection())).not.to.be.instanceOf(AgentSocketFastPath);
    }
    found.WebSocket = installed;
    expect(warnings).to.deep.equal([
      { reason: 'the reader of ws was not found', text: 'hub.agent_wire_stock' },
      { reason: 'the reader of ws has another state between frames', text: 'hub.agent_wire_stock' },
    ]);
  });

  it('is the stock one, with one warning, if a connection of Engine.IO lacks what it uses', async () => {
    for (const changes of [
      { writeBuffer: undefined },
      { sendPacket: undefined },
      { transport: { socket: { _sender: {}, _receiver: {} } } },
    ]) {
      warnings = [];
      const wire = choose('direct');
      for (const _ of [1, 2]) {
        expect(wire.open(connection(changes))).not.to.be.instanceOf(AgentSocketFastPath);
      }
      expect(await wire.isDirect()).to.equal(false);
      expect(warnings).to.have.length(1);
    }
  });
});
