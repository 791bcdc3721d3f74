import { type FromChild, ToChild } from './messages.ts';

/** The end of the channel that belongs to the supervised program. */
export interface ParentChannel {
  send(message: FromChild): void;
}

/** `undefined` where no watchdog has started this process. Pings are answered by the channel itself. */
export function openParentChannel(on: {
  message: (message: ToChild) => void;
  /** The watchdog is gone. */
  closed: () => void;
}): ParentChannel | undefined {
  if (process.send === undefined) return undefined;
  const channel: ParentChannel = {
    send(message) {
      // A watchdog that has ended is noticed by `closed`.
      if (process.connected) process.send?.(message, undefined, undefined, () => {});
    },
  };
  process.on('message', (raw) => {
    const message = ToChild.safeParse(raw);
    if (!message.success) return;
    if (message.data.type === 'ping') channel.send({ type: 'pong', id: message.data.id });
    else on.message(message.data);
  });
  process.on('disconnect', on.closed);
  return channel;
}
