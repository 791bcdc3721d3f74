/** What may become of a standing question at a device, in the order in which pages show it. */
export const QUESTION_OUTCOMES = [
  'waiting',
  'asked',
  'answered',
  'failed',
  'never_came',
  'cancelled',
] as const;
