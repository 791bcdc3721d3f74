import { type ConnectionState, HTTP_ONLY, PENDING } from './connection-state.ts';

/** What a log says about the states of a connection: one line for each change. */
export class StateLines {
  #last = '';

  /** `undefined` where there is nothing new to say. */
  next(state: ConnectionState): { level: 'info' | 'warn'; message: string } | undefined {
    if (state.state === 'connecting' || state.state === 'stopped') return undefined;
    const message = textOf(state);
    if (message === this.#last) return undefined;
    this.#last = message;
    return { level: state.state === 'connected' ? 'info' : 'warn', message };
  }
}

function textOf(state: Exclude<ConnectionState, { state: 'connecting' | 'stopped' }>): string {
  if (state.state === 'connected') {
    return `connected since ${state.since}${state.isPending === true ? `; the device ${PENDING}` : ''}`;
  }
  return state.state === 'http_only' ? `${HTTP_ONLY}. ${state.reason}` : state.reason;
}
