import { LOAD_CORE, startProcess } from '../processes.ts';

export interface SignInOrder {
  url: string;
  /** E-mail addresses, used in turn, all with the same password. */
  people: string[];
  password: string;
  perSecond: number;
}

export interface SignInTimes {
  /** The duration of each sign-in in milliseconds. */
  times: number[];
  /** Responses other than 200, and missing responses. */
  refused: number;
}

export async function startSignIns() {
  const child = await startProcess('load/sign-ins.ts', { cores: LOAD_CORE });
  return {
    start: (order: SignInOrder) => child.call('start', order),
    finish: () => child.call('finish', {}) as Promise<SignInTimes>,
    stop: () => child.stop(),
  };
}
