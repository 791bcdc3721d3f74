import { useEffect, useLayoutEffect, useRef, type RefObject } from 'react';

/** Where a table was scrolled to, by the visit of its page, as long as this tab of the browser is open. */
interface Place {
  top: number;
  active: number;
}

/** Visits that are further back are forgotten. */
const VISITS_MAX = 50;
const places = new Map<string, Place>();

export const rememberedPlace = (visit: string | undefined): Place | undefined =>
  visit === undefined ? undefined : places.get(visit);

function remember(visit: string, place: Place): void {
  places.delete(visit);
  places.set(visit, place);
  const [oldest] = places.keys();
  if (places.size > VISITS_MAX && oldest !== undefined) places.delete(oldest);
}

/** Keeps the place while it changes, and goes back to it once enough rows have arrived. */
export function useKeptPlace({
  visit,
  frame,
  active,
  height,
}: {
  visit: string | undefined;
  frame: RefObject<HTMLElement | null>;
  active: number;
  /** Of all rows. */
  height: number;
}): void {
  const wanted = useRef(rememberedPlace(visit)?.top);
  useLayoutEffect(() => {
    const { current: element } = frame;
    if (element === null || wanted.current === undefined) return;
    // Rows still arrive.
    if (height < wanted.current) return;
    element.scrollTo({ top: wanted.current });
    wanted.current = undefined;
  }, [frame, height]);
  useEffect(() => {
    const { current: element } = frame;
    if (element === null || visit === undefined) return undefined;
    const keep = () => remember(visit, { top: wanted.current ?? element.scrollTop, active });
    // Who scrolls by themselves has chosen another place.
    const forget = () => {
      wanted.current = undefined;
    };
    keep();
    element.addEventListener('scroll', keep, { passive: true });
    element.addEventListener('wheel', forget, { passive: true });
    return () => {
      element.removeEventListener('scroll', keep);
      element.removeEventListener('wheel', forget);
    };
  }, [visit, frame, active]);
}
