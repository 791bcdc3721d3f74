import type { Socket } from 'socket.io-client';
import type { CommandProgress, CommandResult, CommandRows } from '../protocol/index.ts';

/** How results and rows travel over one connection; each resolves when the hub has acknowledged. */
export interface AnswerChannel {
  rows(frame: CommandRows): Promise<void>;
  progress(progress: CommandProgress): Promise<void>;
  result(result: CommandResult): Promise<void>;
}

const RESEND_MS = 500;

/** Sends again until the hub has it or the connection is gone. */
export function channelOver(socket: Socket, ackMs: number): AnswerChannel {
  const deliver = async (event: string, message: CommandRows | CommandProgress | CommandResult) => {
    while (socket.connected) {
      try {
        const answer = (await socket.timeout(ackMs).emitWithAck(event, message)) as {
          ok: boolean;
          error?: { code: string };
        };
        if (answer.ok) return;
        // The hub will not take it however often it comes.
        if (answer.error?.code !== 'DEVICE_BUSY') throw new HubRefused(answer.error?.code ?? 'unknown');
      } catch (error) {
        if (error instanceof HubRefused) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, RESEND_MS));
    }
    throw new Error('the connection ended before the hub had the answer');
  };
  return {
    rows: (frame) => deliver('command:rows', frame),
    progress: (progress) => deliver('command:progress', progress),
    result: (result) => deliver('command:result', result),
  };
}

class HubRefused extends Error {
  constructor(code: string) {
    super(`the hub refused a message: ${code}`);
  }
}
