import type { Rebooter } from './power/reboot.ts';
import type { DurableHandlers } from '../work/running.ts';

/** What is done to the agent and its machine, over what it takes to do it. */
export function agentHandlers(parts: {
  settings: { readonly allowReboot: boolean; setAutoUpdate(enabled: boolean): Promise<void> };
  rebooter: Rebooter;
  /** Looks at the machine anew, and tells the server at once. */
  reportNow: () => void;
  /** Resolves when the server has taken what is installed now. */
  refreshInventory: (signal: AbortSignal) => Promise<void>;
}): DurableHandlers {
  const { settings, rebooter, reportNow, refreshInventory } = parts;
  const handlers: DurableHandlers = {
    async 'agent.set-auto-update'({ enabled }) {
      await settings.setAutoUpdate(enabled);
      reportNow();
      return {};
    },
    async 'agent.refresh-inventory'(_payload, { signal }) {
      reportNow();
      await refreshInventory(signal);
      return {};
    },
  };
  if (!settings.allowReboot) return handlers;
  return {
    ...handlers,
    async 'agent.reboot'({ delaySeconds = 0 }, { afterResult }) {
      rebooter.check();
      // The server would not hear of it from a machine that is already going down.
      afterResult(() => rebooter.reboot(delaySeconds));
      return {};
    },
  };
}
