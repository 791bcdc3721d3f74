import type { Socket } from 'socket.io-client';
import { z } from 'zod';
import { clock } from '../../clock.ts';
import {
  AGENT_MESSAGE_MAX_BYTES,
  AgentErrorCode,
  type CommandProgress,
  type CommandResult,
  type CommandRows,
  ErrorAck,
  type MetricSamples,
  OkAck,
  type ServiceReport,
  type UpdateStatus,
} from '../../protocol/index.ts';
import { AgentError } from './agent-error.ts';
import { printable } from './plain-text.ts';

/** Sends messages over one connection. Each method resolves when the hub has acknowledged the message. */
export interface AnswerChannel {
  rows(frame: CommandRows): Promise<void>;
  progress(progress: CommandProgress): Promise<void>;
  result(result: CommandResult): Promise<void>;
}

/** Sends the phases of upgrades. Resolves when the hub has acknowledged the message. */
export type SendStatus = (status: UpdateStatus) => Promise<void>;
/** The same for samples of the machine's figures. Rejects with `HubRefused` if the hub does not take them. */
export type SendSamples = (samples: MetricSamples) => Promise<void>;
/** The same for services of the machine. */
export type SendServices = (report: ServiceReport) => Promise<void>;

/** What an agent sends of its own accord. */
export interface ReportChannel {
  status: SendStatus;
  samples: SendSamples;
  services: SendServices;
}

const RESEND_MS = 500;
const RESEND_MAX_MS = 60_000;
const HubAck = z.discriminatedUnion('ok', [OkAck, ErrorAck]);

/** Sends each message again until the hub has acknowledged it or the connection has ended. */
export function channelOver(
  socket: Socket,
  ackMs: number,
): { answers: AnswerChannel; reports: ReportChannel } {
  type Message = CommandRows | CommandProgress | CommandResult | UpdateStatus | MetricSamples | ServiceReport;
  const deliver = async (event: string, message: Message) => {
    while (socket.connected) {
      let againMs = RESEND_MS;
      try {
        const answer = HubAck.safeParse(await socket.timeout(ackMs).emitWithAck(event, message));
        if (!answer.success) throw new HubRefused('its acknowledgement is invalid');
        if (answer.data.ok) return;
        // The refusal is final, unless the hub is only busy.
        const { code, retryAfterMs = 0 } = answer.data.error;
        if (code !== 'DEVICE_BUSY') throw new HubRefused(printable(code, 100));
        againMs = Math.min(Math.max(RESEND_MS, retryAfterMs), RESEND_MAX_MS);
      } catch (error) {
        if (error instanceof HubRefused) throw error;
      }
      await clock.sleep(againMs);
    }
    throw new Error('the connection ended before the hub had acknowledged the message');
  };
  const answers: AnswerChannel = {
    async rows(frame) {
      if (isTooLarge(frame)) throw new AgentError(AgentErrorCode.tooLarge, 'A row is too large to be sent.');
      await deliver('command:rows', frame);
    },
    progress: (progress) => deliver('command:progress', progress),
    result: (result) => deliver('command:result', sendable(result)),
  };
  const reports: ReportChannel = {
    status: (status) => deliver('update:status', status),
    samples: (samples) => deliver('metrics:samples', samples),
    services: (report) => deliver('services:report', report),
  };
  return { answers, reports };
}

/** Leaves room for the envelope of a message. */
const MESSAGE_MAX_BYTES = AGENT_MESSAGE_MAX_BYTES - 20_000;

const isTooLarge = (message: unknown) => Buffer.byteLength(JSON.stringify(message)) > MESSAGE_MAX_BYTES;

/** Drops an output that does not fit into a message: each time it was sent, the hub would close the connection. */
export function sendable({ output, ...result }: CommandResult): CommandResult {
  if (!isTooLarge({ ...result, output })) return { ...result, output };
  const error = result.error ?? {
    code: AgentErrorCode.tooLarge,
    message: 'The output was too large to be sent.',
  };
  return { ...result, status: 'failed', error };
}

/** The hub refuses this message, however often it is sent. */
export class HubRefused extends Error {
  /** The reason, for programs. */
  readonly code: string;

  constructor(code: string) {
    super(`the hub refused a message: ${code}`);
    this.code = code;
  }
}
