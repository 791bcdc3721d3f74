/** Why work of a recovery plan cannot be given to a device. */
export class WorkRefused extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.name = 'WorkRefused';
    this.code = code;
  }
}
