/**
 * After an update of the server, a page that is open runs an earlier build, and the parts that it has not loaded yet are
 * gone. It says so, and is loaded again.
 */

const UNREACHABLE_MS = 3_000;
/** A page that does not work after it was loaded again is not loaded again and again. */
const AGAIN_MS = 60_000;
const RELOADED = 'muster-reloaded';
const UPDATED = 'muster-updated';

const entryOf = (page: Document) => page.querySelector('script[type="module"][src]')?.getAttribute('src');

/** Whether the server has another build than the one that runs here; `undefined` if it is unreachable. */
export async function isOutdated(signal?: AbortSignal): Promise<boolean | undefined> {
  try {
    const answer = await fetch('/', {
      headers: { accept: 'text/html' },
      cache: 'no-store',
      ...(signal === undefined ? {} : { signal }),
    });
    if (!answer.ok) return undefined;
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    return entryOf(page) !== entryOf(document);
  } catch {
    return undefined;
  }
}

/** Asks until the server answers. `onAway` is called each time it does not. */
export async function whenReachable(signal: AbortSignal, onAway: () => void): Promise<boolean> {
  for (;;) {
    const answer = await isOutdated(signal);
    if (answer !== undefined) return answer;
    signal.throwIfAborted();
    onAway();
    await new Promise((resolve) => setTimeout(resolve, UNREACHABLE_MS));
    signal.throwIfAborted();
  }
}

/** Loads the page again. The new page says why, if it was an update. */
export function reload({ isUpdate }: { isUpdate: boolean }): void {
  note(RELOADED, String(Date.now()));
  if (isUpdate) note(UPDATED, 'yes');
  window.location.reload();
}

/** As `reload`, but returns false and does nothing if the page was reloaded a moment ago without success. */
export function reloadOnce(why: { isUpdate: boolean }): boolean {
  if (Date.now() - Number(noted(RELOADED) ?? 0) < AGAIN_MS) return false;
  reload(why);
  return true;
}

/** Whether this page was just loaded because of an update; the second call returns false. */
export function takeUpdated(): boolean {
  const isUpdated = noted(UPDATED) !== null;
  if (isUpdated) window.sessionStorage.removeItem(UPDATED);
  return isUpdated;
}

function note(name: string, value: string): void {
  try {
    window.sessionStorage.setItem(name, value);
  } catch {
    // The storage of the browser is off.
  }
}

/** If the storage of the browser is off, what was noted is lost, and the page is not loaded again by itself. */
function noted(name: string): string | null {
  try {
    return window.sessionStorage.getItem(name);
  } catch {
    return name === RELOADED ? String(Date.now()) : null;
  }
}

const MISSING_PART = 'MissingPart';

/**
 * Gives the failure to load a part of the page a name of ours. With the browser's own message, the router would load the
 * page again by itself, even if the server is away and nothing could be loaded.
 */
export function nameMissingParts(): void {
  window.addEventListener('vite:preloadError', ({ payload }) => {
    payload.name = MISSING_PART;
    payload.message = 'A part of the page could not be loaded.';
  });
}

export const isMissingPart = ({ name }: Error): boolean => name === MISSING_PART;
