import type { DurableHandlers } from '../../work/durable-handler.ts';
import type { Rebooter } from './reboot.ts';

/** The administrator of the machine can forbid reboots; then the agent does not offer them. */
export function powerHandlers(allowReboot: boolean, rebooter: Rebooter): DurableHandlers {
  if (!allowReboot) return {};
  return {
    async 'agent.reboot'({ delaySeconds = 0 }, { afterResult }) {
      rebooter.check();
      // A machine that is shutting down could no longer deliver the result.
      afterResult(() => rebooter.reboot(delaySeconds));
      return {};
    },
  };
}
