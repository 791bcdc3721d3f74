import { useEffect, useLayoutEffect, useRef, useState, type RefObject } from 'react';
import { type ColumnWindow, columnsBetween } from './column-window.ts';

/** What a table learns from the element in which it scrolls: the room that it has, and where it was scrolled to. */
type Frame = RefObject<HTMLElement | null>;

/** In a narrower frame, each row is a card with a line for each column. */
const CARDS_BELOW = 560;
/** Columns are drawn so many pixels before they come into view. */
const DRAWN_AHEAD = 200;

/** Whether there is not the room for a table of several columns. */
export function useIsNarrow(frame: Frame): boolean {
  const [isNarrow, setNarrow] = useState(false);
  useLayoutEffect(() => {
    const { current: element } = frame;
    if (element === null) return undefined;
    const look = () => setNarrow(element.clientWidth < CARDS_BELOW);
    const watcher = new ResizeObserver(look);
    watcher.observe(element);
    look();
    return () => watcher.disconnect();
  }, [frame]);
  return isNarrow;
}

export const sumOf = (widths: readonly number[]): number => widths.reduce((sum, width) => sum + width, 0);

/** The columns that are in view, or nearly so, in a frame that is too narrow for all. */
export function useColumnWindow({
  frame,
  leastWidths,
  checkWidth,
  isWhole,
}: {
  frame: Frame;
  /** Of the columns, in pixels: they have these widths as soon as there is not the room for more. */
  leastWidths: readonly number[];
  checkWidth: number;
  /** Whether all columns are drawn anyway. */
  isWhole: boolean;
}): ColumnWindow {
  const all = leastWidths.length;
  const [drawn, setDrawn] = useState<ColumnWindow>({ from: 0, to: all });
  useLayoutEffect(() => {
    const { current: element } = frame;
    if (element === null) return undefined;
    const look = () => {
      const { scrollLeft, clientWidth } = element;
      const left = scrollLeft - checkWidth - DRAWN_AHEAD;
      const hasRoom = isWhole || sumOf(leastWidths) + checkWidth <= clientWidth;
      const next = hasRoom
        ? { from: 0, to: all }
        : columnsBetween(leastWidths, left, left + clientWidth + 2 * DRAWN_AHEAD);
      setDrawn((last) => (last.from === next.from && last.to === next.to ? last : next));
    };
    const watcher = new ResizeObserver(look);
    watcher.observe(element);
    element.addEventListener('scroll', look, { passive: true });
    look();
    return () => {
      watcher.disconnect();
      element.removeEventListener('scroll', look);
    };
  }, [frame, leastWidths, checkWidth, isWhole, all]);
  return drawn;
}

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

/** Keeps the place of a table while it changes, and goes back to it once enough rows have arrived. */
export function useKeptPlace({
  visit,
  frame,
  active,
  height,
}: {
  visit: string | undefined;
  frame: Frame;
  active: number;
  /** The height of all rows together. */
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
    // The user scrolled: the position is theirs from now on.
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
