import type { LoadCommand, LoadCommands, LoadOrder, LoadReply } from './load-process.ts';
import { Fleet } from './fleet.ts';

/** A load process: executes the commands of its parent, several at once if requested, until the parent disconnects. */

const fleet = new Fleet();

const DO: { [C in LoadCommand]: (ask: LoadCommands[C]['ask']) => Promise<LoadCommands[C]['answer']> } = {
  connect: (ask) => fleet.connect(ask),
  closedLoop: (ask) => fleet.closedLoop(ask),
  openLoop: (ask) => fleet.openLoop(ask),
  async beatEvery({ ms }) {
    fleet.beatEvery(ms);
    return { beating: fleet.size };
  },
  flap: async ({ perSecond }) => ({ flapped: fleet.flap(perSecond) }),
  comeBack: ({ spreadMs }) => fleet.comeBack(spreadMs),
  count: async () => ({
    connected: fleet.connected,
    commands: fleet.commands,
    connections: fleet.connections,
  }),
  close: async () => ({ closed: fleet.close() }),
};

process.on('message', (order: LoadOrder) => {
  // The table pairs each command with its parameters.
  const work = DO[order.command] as (ask: LoadOrder['ask']) => Promise<unknown>;
  const reply = (answer: LoadReply) => void process.send?.(answer);
  work(order.ask).then(
    (answer) => reply({ number: order.number, answer }),
    (error: unknown) => reply({ number: order.number, error: String(error) }),
  );
});
process.once('disconnect', () => process.exit(0));
process.send?.('ready');
