/** Parts of a page that can take the focus for what was in them. */
const PARTS = 'main, section, aside, form, [role="tabpanel"], [role="region"]';
/** How many elements that had the focus are remembered: through a menu, a dialog, and a list that the dialog opens. */
const REMEMBERED = 20;
/** Controls that give the focus back by themselves, such as dialogs, do so within this time. */
const PATIENCE_MS = 60;

/**
 * The focus never falls back to the beginning of the page during keyboard use. A button that was busy gets
 * it again. If the element that had it goes away, the part of the page around it gets it; if that was a dialog or a
 * menu, what had it before does.
 */
export function keepFocus(): void {
  let had: HTMLElement | undefined;
  let around: readonly HTMLElement[] = [];
  let wasDisabled = false;
  let before: readonly HTMLElement[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;

  const check = () => {
    timer = undefined;
    if (had === undefined || !isLost()) return;
    if (!isShown(had)) {
      const part = headed(around.find((each) => isShown(each)));
      (part ?? before.find((each) => isUsable(each)) ?? headed(document.querySelector('main')))?.focus({
        preventScroll: true,
      });
    } else if (had.matches(':disabled')) return;
    else if (wasDisabled) had.focus({ preventScroll: true });
    // The user clicked outside.
    else had = undefined;
  };
  const checkSoon = () => {
    // The browser takes the focus from what is disabled a moment later, and says nothing.
    if (had?.matches(':disabled') === true) wasDisabled = true;
    if (had !== undefined && isLost()) timer ??= setTimeout(check, PATIENCE_MS);
  };

  document.addEventListener('focusin', ({ target }) => {
    if (!(target instanceof HTMLElement)) return;
    had = target;
    wasDisabled = false;
    around = partsAround(target);
    // An element that has gone does not come back, and would keep all that stood around it in memory.
    const others = before.filter((each) => each !== target && each.isConnected);
    before = [target, ...others].slice(0, REMEMBERED);
  });
  // After it, the focus may be nowhere.
  document.addEventListener('focusout', () => setTimeout(checkSoon));
  new MutationObserver(checkSoon).observe(document.body, {
    childList: true,
    subtree: true,
    attributeFilter: ['disabled'],
  });
}

const isLost = () => document.activeElement === null || document.activeElement === document.body;
const isShown = (element: HTMLElement) => element.isConnected && element.getClientRects().length > 0;
const isUsable = (element: HTMLElement) => isShown(element) && !element.matches(':disabled');

/** The element that gets the focus: for a whole page its heading, which names the page. */
function headed(part: HTMLElement | null | undefined): HTMLElement | null | undefined {
  const heading = part?.matches('main') === true ? part.querySelector('h1') : null;
  if (heading === null) return part;
  heading.tabIndex = -1;
  return heading;
}

/** The parts of the page that an element is in, the innermost first. They can have the focus from now on. */
function partsAround(element: HTMLElement): HTMLElement[] {
  const parts: HTMLElement[] = [];
  for (
    let part = element.parentElement?.closest<HTMLElement>(PARTS);
    part != null;
    part = part.parentElement?.closest<HTMLElement>(PARTS)
  ) {
    if (!part.hasAttribute('tabindex')) part.tabIndex = -1;
    parts.push(part);
  }
  return parts;
}
