import { clock } from '../../clock.ts';
import {
  type DeviceHub,
  type LiveQuery,
  liveQueryError,
  type LiveQueryFailure,
  remainingQueryMs,
} from '../../hub/index.ts';
import type { DetachedContext } from '../../platform/context.ts';
import { AppError } from '../../platform/errors.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import type { AuditNote } from '../../platform/http/route.ts';
import {
  AgentErrorCode,
  type CommandOutput,
  type CommandRow,
  LISTED_PROCESSES_MAX,
  SERVICES_MAX,
  type ServiceAction,
} from '../../protocol/index.ts';
import { askableDevice, type DeviceModel } from '../devices/index.ts';
import type {
  EndProcess,
  LiveServiceList,
  ProcessEnd,
  ProcessList,
  ServiceControlled,
} from './system-tools.schema.ts';

/** Live processes and services of a device (SHAPES 18). Nothing here holds a database connection while it waits. */
export type LiveTools = ReturnType<typeof liveTools>;

/** What was done to which device, for the audit trail. The device may have been moved since it was asked. */
interface About {
  about: Pick<AuditNote, 'orgId' | 'resourceId' | 'resourceName'>;
}

export interface LiveToolParts {
  hub: DeviceHub;
  audit: AuditTrail;
}

export function liveTools({ hub, audit }: LiveToolParts) {
  async function list<T extends 'processes.list' | 'services.list'>(
    ctx: DetachedContext,
    deviceId: string,
    question: Pick<LiveQuery<T>, 'type' | 'payload' | 'maxRows' | 'signal'>,
  ) {
    await askableDevice(ctx, deviceId);
    const startedAt = clock.monotonic();
    const rows: CommandRow<T>[] = [];
    const outcome = await hub.query<T>(deviceId, {
      ...question,
      onRows: (some) => void rows.push(...some),
      timeoutMs: remainingQueryMs(ctx.arrivedAt),
    });
    // Rows of a list that is not complete stay here: the read has no entry in the audit trail.
    if (!outcome.ok) throw liveQueryError(outcome);
    const meta = { readAt: clock.date(), tookMs: Math.round(clock.monotonic() - startedAt) };
    return { data: rows, meta: { ...outcome.output, ...meta } };
  }

  /** It is not cancelled when the client goes away: what was begun on a device has to be in the audit trail. */
  async function act<T extends 'processes.end' | 'services.control'>(
    ctx: DetachedContext,
    deviceId: string,
    question: Pick<LiveQuery<T>, 'type' | 'payload'>,
    { action, details }: { action: string; details: Record<string, unknown> },
  ): Promise<{ output: CommandOutput<T> } & About> {
    const about = subjectOf(await askableDevice(ctx, deviceId));
    // The entry of the audit trail has the outcome. If this server ends before there is one, its log names the order.
    ctx.log.info({ action, deviceId, ...details, userId: ctx.caller.userId }, 'system_tools.asked');
    const outcome = await hub.query<T>(deviceId, { ...question, timeoutMs: remainingQueryMs(ctx.arrivedAt) });
    if (outcome.ok) return { output: outcome.output, about };
    const error = actError(outcome);
    if (mayHaveActed(outcome)) {
      await ctx.withTenant(({ tx, caller }) =>
        audit.record(tx, {
          ...about,
          action,
          resourceType: 'device',
          details: { ...details, code: error.wireCode },
          result: 'failure',
          errorMessage: reasonOf(outcome) ?? error.message,
          actor: caller,
          state: ctx,
        }),
      );
      audit.committed();
    }
    throw error;
  }

  return {
    processes: (ctx: DetachedContext, deviceId: string, signal: AbortSignal): Promise<ProcessList> =>
      list(ctx, deviceId, { type: 'processes.list', payload: {}, maxRows: LISTED_PROCESSES_MAX, signal }),

    services: (ctx: DetachedContext, deviceId: string, signal: AbortSignal): Promise<LiveServiceList> =>
      list(ctx, deviceId, { type: 'services.list', payload: {}, maxRows: SERVICES_MAX, signal }),

    async endProcess(
      ctx: DetachedContext,
      deviceId: string,
      pid: number,
      { startedAt }: EndProcess,
    ): Promise<ProcessEnd & About> {
      const payload = { pid, startedAt: startedAt.toISOString() };
      const { output, about } = await act(
        ctx,
        deviceId,
        { type: 'processes.end', payload },
        { action: 'device.process.end', details: payload },
      );
      return { pid, ...output, about };
    },

    async control(
      ctx: DetachedContext,
      deviceId: string,
      name: string,
      action: ServiceAction,
    ): Promise<ServiceControlled & About> {
      const { output, about } = await act(
        ctx,
        deviceId,
        { type: 'services.control', payload: { name, action } },
        { action: `device.service.${action}`, details: { service: name } },
      );
      return { name, action, ...output, about };
    },
  };
}

const subjectOf = ({ id, orgId, hostname }: DeviceModel): About['about'] => ({
  orgId,
  resourceId: id,
  resourceName: hostname,
});

/** The device had the question, or may have had it, when it was lost. */
const isCutShort = ({ reason }: LiveQueryFailure): boolean =>
  reason === 'timeout' || reason === 'disconnected' || reason === 'node_lost';

/** Whether the device may have done something. A refusal for lack of a connection, of room or of the capability has no effect. */
const mayHaveActed = (failure: LiveQueryFailure): boolean =>
  isCutShort(failure) ||
  failure.reason === 'unavailable' ||
  failure.reason === 'cancelled' ||
  (failure.reason === 'agent' && failure.code !== AgentErrorCode.busy);

const reasonOf = (failure: LiveQueryFailure): string | undefined =>
  failure.reason === 'agent' ? failure.message : undefined;

const NOT_KNOWN = 'Whether it has done what was asked is not known: read the list again.';

/** The failure of an action as the person is told it, in the words of the device where it has said why. */
function actError(failure: LiveQueryFailure): AppError {
  if (failure.reason === 'agent') {
    const details = { code: failure.code, message: failure.message };
    switch (failure.code) {
      case AgentErrorCode.processNotFound:
        return new AppError('not_found', 'The device has no such process now.', { details });
      case AgentErrorCode.serviceNotFound:
        return new AppError('not_found', 'The device has no such service.', { details });
      case AgentErrorCode.processReplaced:
        return new AppError('conflict', 'The number belongs to another process now.', { details });
      case AgentErrorCode.processProtected:
        return new AppError('conflict', 'The agent does not end this process.', { details });
      case AgentErrorCode.serviceProtected:
        return new AppError('conflict', 'The agent does not stop its own service.', { details });
      case AgentErrorCode.busy:
        return new AppError('device_busy', 'The device is still busy with this. Try again.', {
          details,
          retryAfterMs: 2000,
        });
      default:
        return new AppError('device_error', 'The device could not do it.', { details });
    }
  }
  const error = liveQueryError(failure);
  if (!mayHaveActed(failure)) return error;
  const { code, message, retryAfterMs } = error;
  return new AppError(code, `${message} ${NOT_KNOWN}`, retryAfterMs === undefined ? {} : { retryAfterMs });
}
