/** Why a job has not begun. */
export const WAITS = {
  device: 'It waits for its device, which is offline.',
  due_time: 'It waits for its time.',
  turn: 'It waits for its turn: other work goes first.',
} as const;
