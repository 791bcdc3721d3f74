import { clock } from '../../clock.ts';
import { AgentErrorCode } from '../../protocol/index.ts';
import { AgentError } from '../core/agent-error.ts';
import { inventoryHandlers } from '../capabilities/inventory/handlers.ts';
import { powerHandlers } from '../capabilities/power/handlers.ts';
import { updateHandlers } from '../capabilities/update/handlers.ts';
import type { Journal } from '../work/journal-file.ts';
import type { DurableHandlers } from '../work/durable-handler.ts';
import { pick } from './random.ts';

/** The durable commands of a simulated machine. None of them affects the machine that runs the simulation. */
export function syntheticWork(
  index: number,
  hostname: string,
  settings: { autoUpdate: boolean },
  report: { reportNow: () => void; refreshInventory: (signal: AbortSignal) => Promise<void> },
): DurableHandlers {
  return {
    ...updateHandlers({
      settings: {
        async setAutoUpdate(enabled) {
          settings.autoUpdate = enabled;
        },
      },
      reportNow: report.reportNow,
    }),
    ...inventoryHandlers(report),
    ...powerHandlers(true, { check() {}, async reboot() {} }),
    async 'script.run'({ language, content }, { signal, rows }) {
      const stdout = `${hostname}: ${content.length} characters of ${language} were not run: this machine is simulated.\n`;
      await rows([{ stream: 'stdout', text: stdout }]);
      await clock.sleep(pick([200, 500, 1000, 2000], index, 20), { signal }).catch(() => {
        throw new AgentError(AgentErrorCode.cancelled, 'The script was stopped.');
      });
      return { exitCode: 0, stdout, stderr: '', truncated: false };
    },
  };
}

/** A simulated machine stores nothing beyond the life of its process. */
export function memoryJournal(): Journal {
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
