import type { DurableHandlers } from '../../work/durable-handler.ts';

export function updateHandlers(parts: {
  settings: { setAutoUpdate(enabled: boolean): Promise<void> };
  /** Sends a heartbeat at once. */
  reportNow: () => void;
}): DurableHandlers {
  return {
    async 'agent.set-auto-update'({ enabled }) {
      await parts.settings.setAutoUpdate(enabled);
      parts.reportNow();
      return {};
    },
  };
}
