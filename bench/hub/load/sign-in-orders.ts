import { LOAD_CORE, startProcess } from '../processes.ts';

export interface SignInOrder {
  url: string;
  /** E-mail addresses, taken in turn; all with one password. */
  people: string[];
  password: string;
  perSecond: number;
}

export interface SignInTimes {
  /** Milliseconds each took. */
  times: number[];
  /** Answers other than 200, and none at all. */
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
