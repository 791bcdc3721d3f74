/**
 * The `ref` of a control that has the focus as soon as it is there: the first field of a form that opens by itself, or
 * what takes the place of a form that had the focus. In dialogs, `data-autofocus` does the same.
 */
export const focusOnArrival = (element: HTMLElement | null): void => element?.focus();
