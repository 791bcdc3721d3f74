import type { Answer, Input } from './api/index.ts';

/** Passkeys of this browser. The library between the server's answers and the browser is loaded when it is needed. */
const library = () => import('@simplewebauthn/browser');

type Question = Answer<'POST /auth/passkeys/sign-in-options'>;
export type Assertion = Input<'POST /auth/passkeys/sign-in'>['body']['credential'];
type NewCredential = Input<'POST /auth/passkeys'>['body']['credential'];

/** An address by number, for which browsers make no passkeys. */
const NUMBER = /^[\d.]+$|:/;

/** Browsers have passkeys on pages with TLS and on those of the computer itself, if the address has a name. */
export const hasPasskeys = (): boolean =>
  typeof window.PublicKeyCredential === 'function' && !NUMBER.test(window.location.hostname);

/** Lets an authenticator make a passkey. Throws an error with a sentence for the person. */
export async function makePasskey(
  optionsJSON: Answer<'POST /auth/passkeys/options'>,
): Promise<NewCredential> {
  const { startRegistration } = await library();
  return startRegistration({ optionsJSON }).catch(explain(optionsJSON.rp.id));
}

/** Asks for a passkey. Throws an error with a sentence for the person. */
export async function askPasskey(optionsJSON: Question): Promise<Assertion> {
  const { startAuthentication } = await library();
  return startAuthentication({ optionsJSON }).catch(explain(optionsJSON.rpId));
}

/** Asked again before the challenge is too old. */
const AUTOFILL_MS = 4 * 60_000;

/**
 * Offers the passkeys of this browser in the list below the field for the address, for as long as the page is open.
 * @returns what ends the offer
 */
export function offerPasskeys(
  question: () => Promise<Question>,
  answer: (of: Assertion) => void,
): () => void {
  let isOver = false;
  const state: { timer?: ReturnType<typeof setTimeout>; cancel?: () => void } = {};
  const offer = async () => {
    // An older browser has no such question, which ends the offer as well.
    if (!hasPasskeys() || !(await PublicKeyCredential.isConditionalMediationAvailable())) return;
    const { startAuthentication, WebAuthnAbortService } = await library();
    const optionsJSON = await question();
    // The page may have gone meanwhile.
    if (isOver) return;
    state.cancel = () => WebAuthnAbortService.cancelCeremony();
    state.timer = setTimeout(begin, AUTOFILL_MS);
    answer(await startAuthentication({ optionsJSON, useBrowserAutofill: true }));
  };
  // Nobody has asked for it: without it, the form and the button are there. A new offer, or the button, ends this one.
  const begin = () => void offer().catch(() => undefined);
  begin();
  return () => {
    isOver = true;
    clearTimeout(state.timer);
    state.cancel?.();
  };
}

/** Throws what a browser says, in words. */
function explain(host: string): (error: unknown) => never {
  return (error) => {
    throw new Error(sentenceFor(error, host), { cause: error });
  };
}

function sentenceFor(error: unknown, host: string): string {
  const name = error instanceof Error ? error.name : '';
  switch (name) {
    case 'NotAllowedError':
    case 'AbortError':
      return 'No passkey was used. Try again, or use another way.';
    case 'InvalidStateError':
      return 'This device has a passkey for your account already.';
    case 'SecurityError':
      return `Passkeys of this server work only at the address of ${host}. Open Muster there.`;
    case 'NotSupportedError':
    case 'ConstraintError':
      return 'This device cannot keep a passkey that also checks who uses it.';
    default:
      return 'The passkey could not be used. Try again, or use another way.';
  }
}
