const RULES: readonly [test: (password: string) => boolean, message: string][] = [
  [(password) => password.length >= 8, 'The password must have at least 8 characters.'],
  [(password) => password.length <= 128, 'The password must have at most 128 characters.'],
  [(password) => /\p{Ll}/u.test(password), 'The password must contain a lower-case letter.'],
  [(password) => /\p{Lu}/u.test(password), 'The password must contain an upper-case letter.'],
  [(password) => /\d/.test(password), 'The password must contain a digit.'],
];

/** The first rule that a password breaks; `undefined` where it breaks none. */
export function passwordFault(password: string): string | undefined {
  return RULES.find(([holds]) => !holds(password))?.[1];
}
