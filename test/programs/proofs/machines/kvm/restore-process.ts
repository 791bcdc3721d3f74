import process from 'node:process';
import { openMachineRestores } from '../../../../../src/agent/capabilities/machine-restores/handlers.ts';
import { LocalEngine } from '../../../../../src/agent/repository/local-engine.ts';
import { environmentNetwork } from '../../../../../src/agent/os/network/network.ts';
import { boundHandler } from '../../../../../src/agent/work/handler.ts';

/** The part of the agent that makes machines, as a process of its own, so that a test can kill it at any moment. */

interface Order {
  id: number;
  type: string;
  payload: unknown;
  secrets: Record<string, string>;
}

const [dataDir = ''] = process.argv.slice(2);
const folder = `${dataDir}/backup`;
const warn = (message: string) => void process.stderr.write(`warning: ${message}\n`);
const engine = new LocalEngine({ folder, warn });
await engine.clear();
const restores = await openMachineRestores({
  engine,
  server: 'http://127.0.0.1:1',
  network: environmentNetwork({}),
  dataDir,
  folder,
  warn,
});
const running = new Map<number, AbortController>();

process.on('message', (message: Order | { cancel: number }) => {
  if ('cancel' in message) running.get(message.cancel)?.abort();
  else void carryOut(message);
});

async function carryOut({ id, type, payload, secrets }: Order): Promise<void> {
  const controller = new AbortController();
  running.set(id, controller);
  try {
    const handle = boundHandler<object>({ ...restores.durable, ...restores.live }, { type, payload });
    const output = await handle({
      signal: controller.signal,
      secret: ({ secretRef }: { secretRef: string }) => secrets[secretRef] ?? '',
      progress: (progress: unknown) => process.send?.({ id, progress }),
      rows: async () => {},
      afterResult: () => {},
    });
    process.send?.({ id, output });
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : 'none';
    process.send?.({ id, error: { code, message: error instanceof Error ? error.message : String(error) } });
  } finally {
    running.delete(id);
  }
}

process.send?.({ ready: true });
