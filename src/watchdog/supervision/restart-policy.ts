/** When an agent that ends by itself is started again, and as which of the scripts that this machine has. Pure. */

export interface RestartLimits {
  restartMs: number;
  restartMaxMs: number;
  steadyMs: number;
  crashLoop: number;
}

export interface RestartState {
  /** Which of the scripts is used: 0 is the chosen release, later ones are what falls back. */
  choice: number;
  /** How often it has ended soon after its start, one time after another. */
  crashes: number;
  /** How often all scripts were tried without success. */
  rounds: number;
}

export const FIRST_START: RestartState = { choice: 0, crashes: 0, rounds: 0 };

/** @param choices  how many scripts there are */
export function afterEnd(
  state: RestartState,
  ranMs: number,
  choices: number,
  { restartMs, restartMaxMs, steadyMs, crashLoop }: RestartLimits,
): { state: RestartState; waitMs: number; isCrashLoop: boolean } {
  // A script that has run for a while keeps its place: something else has ended it.
  if (ranMs >= steadyMs) {
    return { state: { ...state, crashes: 0, rounds: 0 }, waitMs: restartMs, isCrashLoop: false };
  }
  const crashes = state.crashes + 1;
  const doubled = restartMs * 2 ** Math.min(crashes - 1 + crashLoop * state.rounds, 20);
  const waitMs = Math.min(restartMaxMs, doubled);
  if (crashes < crashLoop) return { state: { ...state, crashes }, waitMs, isCrashLoop: false };
  const isLast = state.choice + 1 >= choices;
  const next = isLast
    ? { choice: 0, crashes: 0, rounds: state.rounds + 1 }
    : { choice: state.choice + 1, crashes: 0, rounds: state.rounds };
  return { state: next, waitMs, isCrashLoop: true };
}
