import type { Socket } from 'socket.io-client';
import { z } from 'zod';
import {
  AGENT_MESSAGE_MAX_BYTES,
  AgentErrorCode,
  type CommandProgress,
  type CommandResult,
  type CommandRows,
  ErrorAck,
  OkAck,
} from '../../../protocol/index.ts';
import { AgentError } from '../agent-error.ts';
import { printable } from '../plain-text.ts';

/** How results and rows travel over one connection; each resolves when the hub has acknowledged. */
export interface AnswerChannel {
  rows(frame: CommandRows): Promise<void>;
  progress(progress: CommandProgress): Promise<void>;
  result(result: CommandResult): Promise<void>;
}

const RESEND_MS = 500;
const RESEND_MAX_MS = 60_000;
const HubAck = z.discriminatedUnion('ok', [OkAck, ErrorAck]);

/** Sends again until the hub has it or the connection is gone. */
export function channelOver(socket: Socket, ackMs: number): AnswerChannel {
  const deliver = async (event: string, message: CommandRows | CommandProgress | CommandResult) => {
    while (socket.connected) {
      let againMs = RESEND_MS;
      try {
        const answer = HubAck.safeParse(await socket.timeout(ackMs).emitWithAck(event, message));
        if (!answer.success) throw new HubRefused('its answer is not of the agreed form');
        if (answer.data.ok) return;
        // The hub will not take it however often it comes.
        const { code, retryAfterMs = 0 } = answer.data.error;
        if (code !== 'DEVICE_BUSY') throw new HubRefused(printable(code, 100));
        againMs = Math.min(Math.max(RESEND_MS, retryAfterMs), RESEND_MAX_MS);
      } catch (error) {
        if (error instanceof HubRefused) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, againMs));
    }
    throw new Error('the connection ended before the hub had the answer');
  };
  return {
    async rows(frame) {
      if (isTooLarge(frame)) throw new AgentError(AgentErrorCode.tooLarge, 'A row is too large to be sent.');
      await deliver('command:rows', frame);
    },
    progress: (progress) => deliver('command:progress', progress),
    result: (result) => deliver('command:result', sendable(result)),
  };
}

/** Room for what surrounds a message on its way. */
const MESSAGE_MAX_BYTES = AGENT_MESSAGE_MAX_BYTES - 20_000;

const isTooLarge = (message: unknown) => Buffer.byteLength(JSON.stringify(message)) > MESSAGE_MAX_BYTES;

/** The hub ends the connection over a message that is too large, and would over each that follows. */
export function sendable({ output, ...result }: CommandResult): CommandResult {
  if (!isTooLarge({ ...result, output })) return { ...result, output };
  const error = result.error ?? {
    code: AgentErrorCode.tooLarge,
    message: 'The output was too large to be sent.',
  };
  return { ...result, status: 'failed', error };
}

class HubRefused extends Error {
  constructor(reason: string) {
    super(`the hub refused a message: ${reason}`);
  }
}
