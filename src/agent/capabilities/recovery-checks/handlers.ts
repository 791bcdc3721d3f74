import { clock } from '../../../clock.ts';
import { AgentErrorCode, type CommandOutput, type CommandPayload } from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import type { DurableContext, DurableHandlers } from '../../work/durable-handler.ts';
import { checkService } from './check-service.ts';

/** Between two attempts. A machine that is just starting answers only after a while. */
const PAUSE_MS = 1000;

export const recoveryCheckHandlers = (): DurableHandlers => ({ 'recovery.check': untilItPasses });

async function untilItPasses(
  { check, timeoutSeconds }: CommandPayload<'recovery.check'>,
  { signal }: Pick<DurableContext<'recovery.check'>, 'signal'>,
): Promise<CommandOutput<'recovery.check'>> {
  const startedAt = clock.monotonic();
  const deadline = clock.timeoutSignal(timeoutSeconds * 1000);
  const either = AbortSignal.any([signal, deadline]);
  let message = 'It has not answered in time.';
  for (let attempts = 1; ; attempts++) {
    const found = await checkService(check, either);
    if (signal.aborted) throw new AgentError(AgentErrorCode.cancelled, 'The check was stopped.');
    // An attempt that the end of the time has cut off says nothing new.
    if (!deadline.aborted || found.passed) message = found.message;
    const seconds = (clock.monotonic() - startedAt) / 1000;
    if (found.passed || deadline.aborted) {
      return { passed: found.passed, message: message.slice(0, 500), attempts, seconds };
    }
    await clock.sleep(PAUSE_MS, { signal: either }).catch(() => undefined);
  }
}
