/**
 * Properties of a field for the address of a person. Not `type="email"`: browsers refuse letters that are not ASCII in it,
 * and write domains in another form than the person does. The server says what is wrong with an address.
 */
export const EMAIL_INPUT = {
  type: 'text',
  inputMode: 'email',
  autoCapitalize: 'none',
  spellCheck: false,
} as const;
