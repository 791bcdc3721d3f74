import { setTimeout as delay } from 'node:timers/promises';
import { AgentErrorCode } from '../../protocol/index.ts';
import { AgentError } from '../core/agent-error.ts';
import { agentHandlers } from '../capabilities/agent-handlers.ts';
import type { Journal } from '../work/journal-file.ts';
import type { DurableHandlers } from '../work/running.ts';
import { pick } from './random.ts';
import { hostnameOf } from './synthetic-machine.ts';

/** The work of a machine that does not exist: nothing of it happens on the one that simulates it. */
export function syntheticWork(
  index: number,
  settings: { autoUpdate: boolean },
  tell: { reportNow: () => void; refreshInventory: (signal: AbortSignal) => Promise<void> },
): DurableHandlers {
  return {
    ...agentHandlers({
      settings: {
        allowReboot: true,
        async setAutoUpdate(enabled) {
          settings.autoUpdate = enabled;
        },
      },
      rebooter: { check() {}, async reboot() {} },
      ...tell,
    }),
    async 'script.run'({ language, content }, { signal, rows }) {
      const stdout = `${hostnameOf(index)}: ${content.length} characters of ${language} were not run: this machine is simulated.\n`;
      await rows([{ stream: 'stdout', text: stdout }]);
      await delay(pick([200, 500, 1000, 2000], index, 20), undefined, { signal }).catch(() => {
        throw new AgentError(AgentErrorCode.cancelled, 'The script was ended.');
      });
      return { exitCode: 0, stdout, stderr: '', truncated: false };
    },
  };
}

/** A machine that does not exist keeps nothing beyond its process. */
export function forgetfulJournal(): Journal {
  return {
    size: 0,
    open: async () => ({ records: [], isDamaged: false }),
    async write(_record, written) {
      written?.();
    },
    async replace() {},
    async close() {},
  };
}
