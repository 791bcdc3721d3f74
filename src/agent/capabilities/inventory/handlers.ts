import type { DurableHandlers } from '../../work/durable-handler.ts';

export function inventoryHandlers(parts: {
  /** Reads the facts of the heartbeat again and sends them at once. */
  reportNow: () => void;
  /** Resolves when the server has accepted the current inventory. */
  refreshInventory: (signal: AbortSignal) => Promise<void>;
}): DurableHandlers {
  return {
    async 'agent.refresh-inventory'(_payload, { signal }) {
      parts.reportNow();
      await parts.refreshInventory(signal);
      return {};
    },
  };
}
